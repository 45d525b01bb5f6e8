#!/usr/bin/env bash
# Installs the frameworks that the Python package supports into build/frameworks, a separate Python environment. It takes 8 GB
# with PyPI's PyTorch, less with its CPU build. Without a package index, `./dev test --frameworks` reports that it cannot run.
# pip's own settings (index, proxy) apply.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
place=build/frameworks
if [ -e "$place/complete" ] && [ ! python/tests/frameworks.txt -nt "$place/complete" ]; then exit 0; fi
mkdir -p build
echo "getting PyTorch, JAX, TensorFlow and what is in python/tests/frameworks.txt into $place, to try the Python package with"

# PyTorch's own index has a CPU build. If it cannot be reached, use PyPI's build.
get_torch() {
  "$place/bin/pip" install --quiet --retries 0 --timeout 15 --index-url https://download.pytorch.org/whl/cpu torch 2>/dev/null ||
    "$place/bin/pip" install --quiet torch
}

if { /usr/bin/python3 -m venv "$place" && get_torch && "$place/bin/pip" install --quiet -r python/tests/frameworks.txt; }; then
  touch "$place/complete"
else
  echo "error: they could not be got" >&2
  rm -rf "$place"
  exit 1
fi
