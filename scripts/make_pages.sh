#!/bin/sh
# make_pages.sh BERTH FOLDER: man page and completions, as the program's own verb table makes them.
set -eu
export LC_ALL=C.UTF-8
mkdir -p "$2"
"$1" help --man | gzip -9n >"$2/berth.1.gz"
"$1" help --completion bash >"$2/berth.bash"
"$1" help --completion zsh >"$2/_berth"
"$1" help --completion fish >"$2/berth.fish"
