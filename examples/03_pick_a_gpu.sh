#!/bin/sh
# Choose a GPU on a simulated machine with 4 cards, 3 of them in use. No real GPU is needed.
set -eu
berth sim --machine lab-4x3090 --processes 3 -- sh -c '
  berth ls
  berth run --gpus 1 -- sh -c "echo this job sees GPU \$CUDA_VISIBLE_DEVICES"
'
