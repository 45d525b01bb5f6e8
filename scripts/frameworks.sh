#!/usr/bin/env bash
# JAX, TensorFlow and what else the Python package works with, in a Python environment of their own: build/frameworks. Some 700 MB;
# without a package index nothing of it is tried, and `./dev test --frameworks` says so. pip's own settings (index, proxy) hold.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
place=build/frameworks
if [ -e "$place/complete" ] && [ ! python/tests/frameworks.txt -nt "$place/complete" ]; then exit 0; fi
mkdir -p build
echo "getting JAX, TensorFlow, PyOpenCL, IPython, prometheus_client and mypy into $place, to try the Python package with"
if { /usr/bin/python3 -m venv "$place" && "$place/bin/pip" install --quiet -r python/tests/frameworks.txt; }; then
  touch "$place/complete"
else
  echo "error: they could not be got" >&2
  rm -rf "$place"
  exit 1
fi
