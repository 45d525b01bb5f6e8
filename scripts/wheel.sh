#!/usr/bin/env bash
# Called by ./dev package: builds the wheel and the source distribution of the Python package into build/package/. The tools come from PyPI.
# Without a package index no wheel is built, and a note says so. pip's own settings (index, proxy) apply.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
tools=$PWD/build/wheel-tools
if [ ! -x "$tools/bin/pyproject-build" ]; then
  mkdir -p build
  if ! { /usr/bin/python3 -m venv "$tools" && "$tools/bin/pip" install --quiet -r python/build-requirements.txt; }; then
    echo "note: the tools that make a wheel could not be got, so none is made" >&2
    rm -rf "$tools"
    exit 0
  fi
fi
rm -f build/package/*.whl
"$tools/bin/pyproject-build" --no-isolation --wheel --outdir build/package -C "build-dir=$PWD/build/wheel" . >build/wheel.log 2>&1 ||
  { tail -40 build/wheel.log >&2; exit 1; }
# Build the same package without compiled parts, for platforms without a build.
rm -rf build/package/pure
"$tools/bin/pyproject-build" --no-isolation --wheel --outdir build/package/pure -C wheel.cmake=false . >build/pure-wheel.log 2>&1 ||
  { tail -40 build/pure-wheel.log >&2; exit 1; }
/usr/bin/python3 python/tests/test_pure_wheel.py build/package/pure/berth_gpu-*-py3-none-any.whl
/usr/bin/python3 python/tests/test_sdist.py
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$tools/bin/pyproject-build" --no-isolation --sdist --outdir "$made" . >build/sdist.log 2>&1 ||
  { tail -40 build/sdist.log >&2; exit 1; }
# Check that the source distribution contains all files that a build needs.
mkdir "$made/source"
tar -xzf "$made"/berth_gpu-*.tar.gz -C "$made/source" --strip-components 1
cmake -S "$made/source" -B "$made/build" -G Ninja -DBERTH_BUILD_TESTS=OFF >"$made/log" 2>&1 || { cat "$made/log" >&2; exit 1; }
mv "$made"/berth_gpu-*.tar.gz build/package/
# Check with each Python of this machine that installing the wheel provides the program and the package.
/usr/bin/python3 python/tests/test_wheel.py build/package/berth_gpu-*.whl
