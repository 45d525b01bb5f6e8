#!/bin/sh
# make_pages.sh BERTH FOLDER: man pages (one per verb) and completions, generated from the program's verb table.
set -eu
export LC_ALL=C.UTF-8
mkdir -p "$2/man1"
"$1" help --man | gzip -9n >"$2/man1/berth.1.gz"
for verb in $("$1" help --json | tr '{' '\n' | sed -n 's/^"name":"\([a-z][a-z]*\)","group".*/\1/p'); do
  "$1" help --man "$verb" | gzip -9n >"$2/man1/berth-$verb.1.gz"
done
"$1" help --completion bash >"$2/berth.bash"
"$1" help --completion zsh >"$2/_berth"
"$1" help --completion fish >"$2/berth.fish"
