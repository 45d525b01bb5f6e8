#!/usr/bin/env python3
"""Runs your own kernel: through CUDA on an NVIDIA GPU, else through OpenCL on any device (PoCL on a CPU).

    python3 examples/14_kernel.py      (needs OpenCL with a platform such as PoCL, or NVIDIA's driver and NVRTC)

It first asks for an array that is too large, and then makes a mistake in the source, to show both errors.
"""
import sys

import berth

COUNT = 1 << 20
SOURCE = """
KERNEL void twice(GLOBAL const float* x, GLOBAL float* y, int n) {
    int i = GLOBAL_ID(0);
    if (i < n) y[i] = 2 * x[i];
}
"""


def main():
    try:
        twice = berth.kernel(SOURCE)
    except berth.NoDevice as why:
        print(f"error: {why}", file=sys.stderr)
        sys.exit(2)

    try:
        berth.empty(1 << 40)
    except berth.BerthError as problem:
        if not berth.is_oom(problem):
            raise
        print(f"4 TiB do not fit: {str(problem).splitlines()[0]}")
    try:
        berth.kernel(SOURCE.replace("x[i]", "z[i]"))
    except berth.KernelCompileError as problem:
        print(problem)

    x, y = berth.asarray(range(COUNT)), berth.empty(COUNT)
    event = twice(x, y, COUNT, size=COUNT)
    right = y.tolist() == [2.0 * i for i in range(COUNT)]
    print(f"{y.device}: {'right' if right else 'wrong'} for {COUNT} numbers in {event.seconds * 1e3:.2f} ms")
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
