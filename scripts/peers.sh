#!/usr/bin/env bash
# Installs the tools with which Berth is compared into build/peers, a separate Python environment. Without a package index, tests and table
# rows that need the tools are skipped with a message. pip's own settings (index, proxy) apply.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
peers=build/peers
if [ -x "$peers/bin/gpustat" ] && [ -x "$peers/bin/nvitop" ] && [ -x "$peers/bin/nvitop-exporter" ]; then exit 0; fi
mkdir -p build
echo "getting gpustat, nvitop and nvitop-exporter into $peers, to compare with them"
if ! { /usr/bin/python3 -m venv "$peers" && "$peers/bin/pip" install --quiet -r tests/peers/requirements.txt; }; then
  echo "note: they could not be got; what needs them is skipped" >&2
  rm -rf "$peers"
fi
