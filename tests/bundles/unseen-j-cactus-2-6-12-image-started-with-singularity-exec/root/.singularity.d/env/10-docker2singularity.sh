#!/bin/sh
export CUDA_VERSION="${CUDA_VERSION:-"11.4.3"}"
