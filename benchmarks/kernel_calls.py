#!/usr/bin/env python3
"""Measures what a launch of an empty kernel from Python takes until the call returns, and what an array takes that comes from a pool: Berth beside
PyOpenCL (if installed) and beside the bare calls of the OpenCL library by ctypes, on the same OpenCL device. Candidates run alternately; values are
the least of many medians. Prints rows `name, berth, anchor, ratio`.

usage: kernel_calls.py [--repeat N] [--json FILE]
"""
import argparse
import ctypes
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import measuring

sys.path.insert(0, str(measuring.ROOT / "python"))
os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
BATCH = 200  # launches between two waits, so that the queue stays short
BERTH = "KERNEL void nothing(GLOBAL float* x, float a, int n) { if (GLOBAL_ID(0) >= n) x[0] = a; }"
OPENCL = "kernel void nothing(global float* x, float a, int n) { if ((int)get_global_id(0) >= n) x[0] = a; }"


def medians(candidates, repeat):
    """{name: least median of microseconds a call}; a candidate is (launch, wait)."""
    least = {}
    for _ in range(repeat):
        for name, (launch, wait) in candidates.items():
            times = []
            for _ in range(BATCH):
                before = time.perf_counter()
                launch()
                times.append(time.perf_counter() - before)
            wait()
            least[name] = min(least.get(name, 1e9), statistics.median(times) * 1e6)
    return least


def berth_candidates():
    import berth
    kernel = berth.kernel(BERTH, backend="opencl")
    x = berth.empty(256, "float32", backend="opencl")
    last = []

    def launch():
        last[:] = [kernel(x, 1.0, 256, size=256)]

    return {"berth": (launch, lambda: last[0].wait())}, lambda: berth.empty(256, "float32", backend="opencl")


def pyopencl_candidates():
    import numpy
    import pyopencl
    context = pyopencl.Context([pyopencl.get_platforms()[0].get_devices()[0]])
    queue = pyopencl.CommandQueue(context)
    program = pyopencl.Program(context, OPENCL).build()
    kernel = program.nothing
    x = pyopencl.Buffer(context, pyopencl.mem_flags.READ_WRITE, 1024)
    a, n = numpy.float32(1), numpy.int32(256)
    pool = pyopencl.tools.MemoryPool(pyopencl.tools.ImmediateAllocator(queue))
    held = pool.allocate(1024)
    del held
    kernel.set_scalar_arg_dtypes([None, numpy.float32, numpy.int32])  # as its documentation says, for speed
    fixed = pyopencl.Kernel(program, "nothing")
    fixed.set_args(x, a, n)
    enqueue = pyopencl.enqueue_nd_range_kernel
    return {"pyopencl": (lambda: kernel(queue, (256,), (256,), x, 1.0, 256), queue.finish),
            "pyopencl fixed": (lambda: enqueue(queue, fixed, (256,), (256,)), queue.finish)}, lambda: pool.allocate(1024)


def bare_candidates():
    """clSetKernelArg three times and clEnqueueNDRangeKernel, with objects that were made before."""
    cl = ctypes.CDLL("libOpenCL.so.1")
    void, size = ctypes.c_void_p, ctypes.c_size_t
    for name in ("clCreateContext", "clCreateCommandQueue", "clCreateProgramWithSource", "clCreateKernel", "clCreateBuffer"):
        getattr(cl, name).restype = void
    platform, device, status = void(), void(), ctypes.c_int()
    cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
    cl.clGetDeviceIDs(platform, ctypes.c_ulong(0xFFFFFFFF), 1, ctypes.byref(device), None)
    context = void(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(status)))
    queue = void(cl.clCreateCommandQueue(context, device, ctypes.c_ulong(0), ctypes.byref(status)))
    source = ctypes.c_char_p(OPENCL.encode())
    program = void(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, ctypes.byref(status)))
    if cl.clBuildProgram(program, 0, None, None, None, None) != 0:
        raise RuntimeError("the kernel does not compile")
    kernel = void(cl.clCreateKernel(program, b"nothing", ctypes.byref(status)))
    x = void(cl.clCreateBuffer(context, ctypes.c_ulong(1), size(1024), None, ctypes.byref(status)))
    a, n, whole = ctypes.c_float(1), ctypes.c_int(256), size(256)
    arguments = ((8, ctypes.byref(x)), (4, ctypes.byref(a)), (4, ctypes.byref(n)))
    enqueue, whole = cl.clEnqueueNDRangeKernel, ctypes.byref(whole)
    enqueue.argtypes = [void, void, ctypes.c_uint, void, void, void, ctypes.c_uint, void, void]
    set_argument = cl.clSetKernelArg
    set_argument.argtypes = [void, ctypes.c_uint, size, void]

    def launch():
        for index, (count, value) in enumerate(arguments):
            set_argument(kernel, index, count, value)
        enqueue(queue, kernel, 1, None, whole, whole, 0, None, None)

    return {"bare": (launch, lambda: cl.clFinish(queue)),
            "driver": (lambda: enqueue(queue, kernel, 1, None, whole, whole, 0, None, None), lambda: cl.clFinish(queue))}


def allocations(make, repeat):
    """Least median of microseconds for an array that is freed at once."""
    least = 1e9
    for _ in range(repeat):
        times = []
        for _ in range(BATCH):
            before = time.perf_counter()
            one = make()
            times.append(time.perf_counter() - before)
            del one
        least = min(least, statistics.median(times) * 1e6)
    return least


def in_cpp():
    """(launch, buffer from the pool) in microseconds with berth/kernels.hpp; None without a compiler."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        return None
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "kernel_calls")
        subprocess.run([compiler, "-std=c++17", "-O2", f"-I{measuring.ROOT}/include", measuring.ROOT / "benchmarks/kernel_calls.cpp", "-o", program, "-ldl"],
                       check=True)
        done = subprocess.run([program], capture_output=True, text=True)
    return tuple(map(float, done.stdout.split())) if done.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=40)
    parser.add_argument("--json")
    wishes = parser.parse_args()
    candidates, make = berth_candidates()
    candidates.update(bare_candidates())
    others = {}
    try:
        more, other = pyopencl_candidates()
        candidates.update(more)
        others["PyOpenCL's pool"] = other
    except ImportError:
        print("PyOpenCL is not installed: its rows are left out")
    found = medians(candidates, wishes.repeat)
    rows = [("launch from Python", found["berth"], "clEnqueueNDRangeKernel alone", found["driver"]),
            ("launch from Python", found["berth"], "the bare calls by ctypes, with arguments", found["bare"])]
    if "pyopencl" in found:
        rows.append(("launch from Python", found["berth"], "PyOpenCL", found["pyopencl"]))
        rows.append(("launch from Python", found["berth"], "PyOpenCL, arguments set once before", found["pyopencl fixed"]))
    own = allocations(make, wishes.repeat)
    rows.append(("an array of 1 KiB from the pool", own, "goal", 1.0))
    rows += [("an array of 1 KiB from the pool", own, name, allocations(one, wishes.repeat)) for name, one in others.items()]
    if of_cpp := in_cpp():
        rows += [("launch from C++", of_cpp[0], "clEnqueueNDRangeKernel alone, by ctypes", found["driver"]),
                 ("a buffer from the pool in C++", of_cpp[1], "goal", 1.0)]
    print(f"{'what':34}{'Berth':>10}  {'anchor':42}{'anchor':>10}{'ratio':>8}")
    for what, berth, name, anchor in rows:
        print(f"{what:34}{berth:7.2f} µs  {name:42}{anchor:7.2f} µs{berth / anchor:8.2f}")
    if wishes.json:
        pathlib.Path(wishes.json).write_text(json.dumps([dict(zip(("what", "berth", "anchor_name", "anchor"), row)) for row in rows]))


if __name__ == "__main__":
    main()
