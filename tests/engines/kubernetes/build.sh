#!/usr/bin/env bash
# Builds a one-node Kubernetes for cluster_test.py, once: FOLDER/bin gets kubebox (etcd, API server, controllers, scheduler, kubelet, kubectl), containerd 2,
# Debian's containerd 1.6 (which has no CDI), runc and busybox. All sources come from the Go module proxy and from apt.
#   build.sh FOLDER
# To change the version: edit versions.env, replace the versions in kubebox/go.mod (v1.37.2 and v0.37.2), delete go.sum, run this.
# FOLDER/stamp says what was built; if versions.env or kubebox/ differ from it, all of it is built again.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
folder=${1:?a folder for the programs}
. "$here/versions.env"
mkdir -p "$folder/bin"
bin=$(readlink -f "$folder")/bin

if ! go version >/dev/null 2>&1; then
  printf 'error: there is no Go to build Kubernetes with\n\nhint: install Go 1.21 or newer from https://go.dev/dl (it fetches the version that Kubernetes needs)\n' >&2
  exit 3
fi
export GOMODCACHE=$folder/modcache GOCACHE=$folder/gocache CGO_ENABLED=0 GOFLAGS=-buildvcs=false

stamp=$(cd "$here" && cat versions.env kubebox/* | sha256sum | cut -d' ' -f1)
if [ "$(cat "$folder/stamp" 2>/dev/null)" != "$stamp" ]; then
  rm -rf "$bin/kubebox" "$bin/containerd-shim-runc-v2" "$folder/helm" "$folder/src"
fi

if [ ! -x "$bin/kubebox" ]; then
  echo "building Kubernetes $KUBERNETES: about 16 minutes of CPU time and 6 GB of disk, once"
  module=$folder/src
  mkdir -p "$module"
  cp "$here"/kubebox/* "$module"
  flags="-s -w"
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitVersion=v$KUBERNETES -X $package.gitMajor=${KUBERNETES%%.*} -X $package.gitMinor=$(cut -d. -f2 <<<"$KUBERNETES")"
    flags+=" -X $package.gitTreeState=clean"
  done
  (cd "$module" && nice go build -mod=mod -trimpath -p "$(nproc)" -ldflags "$flags" -o "$bin/kubebox.new" .)
  mv "$bin/kubebox.new" "$bin/kubebox"
fi

if [ ! -x "$bin/containerd-shim-runc-v2" ]; then
  echo "building containerd $CONTAINERD"
  package=github.com/containerd/containerd/v2
  for program in containerd ctr containerd-shim-runc-v2; do
    GOBIN=$bin nice go install -trimpath -tags 'no_btrfs no_devmapper no_zfs' -ldflags "-s -w -X $package/version.Version=v$CONTAINERD" \
      "$package/cmd/$program@v$CONTAINERD"
  done
fi

if [ ! -x "$folder/helm/bin/python" ]; then
  echo "installing Helm (helm-python-sdk $HELM_SDK)"
  python3 -m venv "$folder/helm"
  "$folder/helm/bin/pip" --quiet install "helm-python-sdk==$HELM_SDK"
fi

# Unpacked, not installed: the machine's own programs stay as they are.
if [ ! -x "$bin/containerd-1.6/containerd" ]; then
  packages=$(mktemp -d)
  (cd "$packages" && apt-get download -qq runc busybox-static containerd && for file in *.deb; do dpkg-deb -x "$file" root; done)
  cp "$packages/root/usr/sbin/runc" "$packages/root/bin/busybox" "$bin"
  mkdir -p "$bin/containerd-1.6"
  cp "$packages"/root/usr/bin/{containerd,ctr,containerd-shim-runc-v2} "$bin/containerd-1.6"
  rm -r "$packages"
fi
echo "$stamp" >"$folder/stamp"
echo "the programs are in $bin; $folder/modcache and $folder/gocache may be deleted"
