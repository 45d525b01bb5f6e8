#!/usr/bin/env bash
# Installs NVIDIA's headers, runtimes and compilers from PyPI into build/cuda/12.9 and build/cuda/13.5, each a separate Python environment
# with cuda-python's bindings, for `./dev test --cuda`. They take 1.1 GB. pip's own settings (index, proxy) apply.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
mkdir -p build/cuda
for version in 12.9 13.5; do
  place=build/cuda/$version
  list=tests/cuda/$version.txt
  if [ -e "$place/complete" ] && [ ! "$list" -nt "$place/complete" ]; then continue; fi
  echo "getting what is in $list into $place, to try the guard with NVIDIA's compilers"
  if ! { /usr/bin/python3 -m venv --clear "$place" && "$place/bin/pip" install --quiet --no-deps -r "$list" && touch "$place/complete"; }; then
    echo "error: it could not be got" >&2
    rm -rf "$place"
    exit 1
  fi
done
