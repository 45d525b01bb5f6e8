#!/usr/bin/env python3
"""A kernel of your own in a job that has 256 MiB of an OpenCL device (PoCL: the CPU): what fits runs, what does not fit is refused.

    python3 examples/16_kernel_under_quota.py      (needs OpenCL with a platform such as PoCL, and no GPU)

It starts itself again with `berth run --devices N --memory 256MiB`.
"""
import json
import os
import subprocess
import sys

MIB = 1 << 20
SOURCE = """
KERNEL void twice(GLOBAL const float* x, GLOBAL float* y, int n) {
    int i = GLOBAL_ID(0);
    if (i < n) y[i] = 2 * x[i];
}
"""


def start_in_a_job():
    seen = json.loads(subprocess.run(["berth", "ls", "--json", "--opencl"], stdout=subprocess.PIPE, check=True).stdout)
    devices = [device["index"] for device in seen["devices"] if device["kind"] == "opencl"]
    if not devices:
        print("no device that only OpenCL lists: install pocl-opencl-icd, or use --gpus on a machine with a GPU")
        return
    os.execvp("berth", ["berth", "run", "--devices", str(devices[0]), "--memory", "256MiB", "--report", "-", "--", sys.executable, *sys.argv])


def main():
    import berth

    twice = berth.kernel(SOURCE, backend="opencl")
    count = 25 * MIB
    x, y = berth.empty(count), berth.empty(count)
    print(f"two arrays of {4 * count // MIB} MiB fit")
    try:
        berth.empty(count)
    except berth.BerthError as problem:
        if not berth.is_oom(problem):
            raise
        print("a third one does not")
    twice(x, y, count, size=count)
    print("the kernel ran")


if __name__ == "__main__":
    main() if "BERTH_GUARD" in os.environ else start_in_a_job()
