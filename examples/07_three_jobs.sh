#!/bin/sh
# Three jobs for two GPUs: the third waits, Berth says for what, and it starts when a GPU is free. The machine is simulated,
# so no GPU is needed.
set -eu
[ -n "${BERTH_SIM_DIR:-}" ] || exec berth sim --machine driver-535 -- sh "$0"
berth run --queue --gpus 1 --name first --time-limit 1m -- sh -c 'echo "first on GPU $CUDA_VISIBLE_DEVICES"; sleep 1'
berth run --queue --gpus 1 --name second --time-limit 2m -- sh -c 'echo "second on GPU $CUDA_VISIBLE_DEVICES"; sleep 2'
berth run --queue --gpus 1 --name third -- sh -c 'echo "third on GPU $CUDA_VISIBLE_DEVICES"'
echo
berth jobs
echo
berth why third
echo
berth wait third
berth logs third
berth why third
