# shellcheck shell=bash
# Sourced by ./dev. need GROUP...: installs missing Debian packages of these groups and says why they are needed. apt's own
# settings (mirrors, proxies) apply; no host is named here.

packages_for() {
  case $1 in
    build) echo g++ cmake ninja-build libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev \
      libsqlite3-dev libncurses-dev libboost-dev python3 python3-polib ;;
    test_build) echo doctest-dev clang-14 lld-14 ;;
    test) packages_for test_build; echo libclang-rt-14-dev clang-format-14 python3-venv ocl-icd-libopencl1 \
      pocl-opencl-icd valgrind libopenblas0 python3-torch python3-sklearn debootstrap musl-tools librsvg2-bin ;;
    torch) echo python3-torch ;;
    digits) echo python3-sklearn ;;
    package) echo dpkg-dev file git ;;
    watch) echo prometheus ;;
    kubernetes) echo libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libssl-dev openssl python3-grpcio python3-protobuf python3-yaml ;;
    cluster) echo gcc iproute2 openssl util-linux binutils ;;
    containers) echo podman runc crun catatonit ;;
    slurm) echo slurmd slurmctld slurmdbd slurm-client munge libslurm-dev libpam-slurm-adopt mariadb-server ;;
    browser) echo chromium nodejs npm ;;
    bench) echo python3-venv task-spooler ;;
    soak) echo qemu-system-x86 debootstrap e2fsprogs dpkg-dev file ;;
    lint) echo clang-tidy-14 clang-format-14 shellcheck ;;
  esac
}

why() {
  case $1 in
    build) echo "to build Berth: compiler, CMake, Ninja, libraries (headers, SQLite and ncurses), message catalogues" ;;
    test_build) echo "to build it for tests and for trying it: clang compiles it in half of the time" ;;
    test) echo "to test it: doctest, sanitizers and libFuzzer (clang, lld), OpenCL on the CPU, PyTorch for the examples, a Debian in a folder, musl, valgrind, and PNG pictures" ;;
    torch) echo "to train the demo's network: this Python has no PyTorch" ;;
    digits) echo "for the handwritten digits that the demo learns" ;;
    package) echo "to make the packages" ;;
    soak) echo "to try a whole machine that systemd starts, in a virtual one" ;;
    browser) echo "to try the page in a browser" ;;
    kubernetes) echo "to build berth-k8s, which talks to a kubelet by gRPC, and to play a kubelet in the tests" ;;
    containers) echo "to try it with podman" ;;
    slurm) echo "to try it in a real Slurm" ;;
    cluster) echo "to try it in a real Kubernetes: namespaces, a network for pods, certificates" ;;
    watch) echo "to check metrics and rules with promtool" ;;
    bench) echo "to measure beside task-spooler, gpustat and nvitop (these get a Python environment of their own)" ;;
    lint) echo "to look for faults that compilers do not report" ;;
  esac
}

missing_of() {
  local package
  for package in $(packages_for "$1"); do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

need() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "note: no apt here, so nothing is installed; CONTRIBUTING.md lists what the build needs" >&2
    return 0
  fi
  local group missing all=()
  for group in "$@"; do
    missing=$(missing_of "$group")
    [ -n "$missing" ] || continue
    echo "missing, $(why "$group"):"
    echo "  ${missing//$'\n'/$'\n'  }"
    mapfile -t -O "${#all[@]}" all <<<"$missing"
  done
  [ ${#all[@]} -eq 0 ] || install "${all[@]}"
}

install() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      printf 'error: packages are missing, and there is neither root nor sudo to install them\n\n' >&2
      printf 'hint: as root: apt-get update && apt-get install %s\n' "$*" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)
  echo "installing with apt: $*"
  # Update the package lists only if they are missing or outdated.
  if ! apt-cache show "$@" >/dev/null 2>&1 || ! "${apt[@]}" install -y --no-install-recommends "$@"; then
    if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "$@"; }; then
      printf 'error: apt could not install them\n\nhint: as root: apt-get update && apt-get install %s\n' "$*" >&2
      exit 1
    fi
  fi
}
