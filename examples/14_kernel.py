#!/usr/bin/env python3
"""Runs your own kernel: with CuPy on an NVIDIA or AMD GPU, else with PyOpenCL on any OpenCL device (PoCL on a CPU).

    python3 examples/14_kernel.py      (needs CuPy, or PyOpenCL and a platform such as PoCL)

It first asks for a buffer that is too large. Each library reports that in its own words, and berth.is_oom recognises them.
"""
import sys

import berth

COUNT = 1 << 20


def with_cupy():
    import cupy
    if cupy.cuda.runtime.getDeviceCount() == 0:
        raise ImportError("CuPy sees no GPU")
    kernel = cupy.RawKernel("""extern "C" __global__ void twice(const float* x, float* y, int n) {
        int at = blockDim.x * blockIdx.x + threadIdx.x;
        if (at < n) y[at] = 2 * x[at];
    }""", "twice")

    def run(count):
        x = cupy.arange(count, dtype="float32")
        y = cupy.empty_like(x)
        kernel(((count + 255) // 256,), (256,), (x, y, cupy.int32(count)))
        return bool((y == 2 * x).all())
    return cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(), run


def with_opencl():
    import numpy
    import pyopencl as cl
    context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, "__kernel void twice(__global const float* x, __global float* y) { int at = get_global_id(0); y[at] = 2 * x[at]; }").build()

    def run(count):
        out = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, 4 * count)
        x = numpy.arange(count, dtype="float32")
        given = cl.Buffer(context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=x)
        cl.Kernel(program, "twice")(queue, (count,), None, given, out)
        y = numpy.empty_like(x)
        cl.enqueue_copy(queue, y, out)
        return bool((y == 2 * x).all())
    return context.devices[0].name, run


def main():
    why = []
    for make in (with_cupy, with_opencl):
        try:
            name, run = make()
            break
        except Exception as problem:  # not installed, no driver, no platform
            why.append(f"{make.__name__[5:]}: {problem}")
    else:
        print("error: neither CuPy nor PyOpenCL has a device here\n" + "\n".join(why), file=sys.stderr)
        print("hint: pip install cupy-cuda12x   or   sudo apt install python3-pyopencl pocl-opencl-icd", file=sys.stderr)
        sys.exit(2)

    try:
        run(1 << 40)
    except Exception as problem:
        if not berth.is_oom(problem):
            raise
        print(f"4 TiB do not fit: {str(problem).splitlines()[0]}")
    right = run(COUNT)
    print(f"{name}: {'right' if right else 'wrong'} for {COUNT} numbers")
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
