#!/bin/sh
# Give this shell, and everything it starts, the environment of a job. This job runs on the CPU.
set -eu
eval "$(berth env --cpu)"
echo "GPUs: $CUDA_VISIBLE_DEVICES   threads: $OMP_NUM_THREADS"
python3 -c 'import os; print("Python sees the same:", os.environ["CUDA_VISIBLE_DEVICES"], os.environ["OMP_NUM_THREADS"])'
