#!/bin/sh
export CUDA_VERSION="${CUDA_VERSION:-"11.7.0.022"}"
