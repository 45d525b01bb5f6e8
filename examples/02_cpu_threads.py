#!/usr/bin/env python3
"""Shows what a job on the CPU gets: GPUs are hidden, and there is one thread for each core the job may use.

    berth run --cpu -- python3 examples/02_cpu_threads.py
"""
import os
import sys

cores = len(os.sched_getaffinity(0))
threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
print(f"cores in sight: {cores}   threads to use: {threads}   GPUs: {os.environ.get('CUDA_VISIBLE_DEVICES', 'all')}")
if os.environ.get("CUDA_VISIBLE_DEVICES") != "-1" or not 1 <= threads <= cores:
    print("hint: berth run --cpu -- python3 examples/02_cpu_threads.py", file=sys.stderr)
    sys.exit(1)
