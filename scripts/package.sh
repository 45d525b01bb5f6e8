#!/usr/bin/env bash
# Called by ./dev package after the build: creates a .deb, a binary tarball and a source tarball in build/package/.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
rm -rf build/package
(cd build/release && cpack -G DEB && cpack -G TGZ)
rm -rf build/package/_CPack_Packages
if git rev-parse --git-dir >/dev/null 2>&1; then
  version=$(sed -n 's/^project(berth VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  git archive --prefix="berth-$version/" HEAD | gzip -9n >"build/package/berth-$version-source.tar.gz"
  [ -z "$(git status --porcelain)" ] || echo "note: the source tarball holds what is committed; there are changes besides"
else
  echo "note: no git here, so no source tarball is made"
fi
inside=$(dpkg-deb --fsys-tarfile build/package/*.deb | tar -t)
for wanted in usr/bin/berth usr/share/man/man1/berth.1.gz usr/share/bash-completion/completions/berth usr/share/doc/berth/pci_names.LICENSE; do
  grep -qF "$wanted" <<<"$inside" || {
    echo "error: the .deb lacks $wanted" >&2
    exit 1
  }
done
scripts/wheel.sh
ls -l build/package
