#!/bin/sh
# singularity-hpc
export PS1="[nvcr.io/nvidia/tensorflow]$ "
