#include "system/container.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace berth::system;

namespace {

using Texts = std::map<std::string, std::string>;

std::string kind_of(const Texts& files, const Texts& variables = {}) {
  const auto in = [](const Texts& texts, const char* name) -> std::optional<std::string> {
    const auto found = texts.find(name);
    return found == texts.end() ? std::nullopt : std::optional(found->second);
  };
  const ContainerView view{[&](const char* path) { return in(files, path).has_value(); },
                           [&](const char* path) { return in(files, path); },
                           [&](const char* name) { return in(variables, name); }};
  const Container found = container_by_files(view);
  return found.kind.empty() ? container_by_variables(view).kind : found.kind;
}

std::string kind_by(const std::string& mountinfo, const std::string& cgroup) {
  return kind_of({{"/proc/self/mountinfo", mountinfo}, {"/proc/self/cgroup", cgroup}});
}

constexpr const char* kDisk = "27 1 254:0 / / rw - ext4 /dev/vda rw\n";
constexpr const char* kLayers =
    "1 0 0:1 / / rw - rootfs none rw\n2 1 0:50 / / rw - overlay overlay rw\n";

}  // namespace

TEST_CASE("containers by their mounts and groups") {
  CHECK(kind_by("", "0::/\n").empty());
  CHECK(kind_by("", "0::/kubepods.slice/kubepods-pod12.slice/cri-containerd-3f.scope\n") ==
        "kubernetes");
  CHECK(kind_by("", "4:memory:/docker/3f2a\n") == "docker");
  CHECK(kind_by("", "0::/user.slice/user-1000.slice/libpod-77.scope\n") == "podman");
  CHECK(kind_by("", "0::/lxc.payload.web/\n") == "lxc");
  CHECK(kind_by("1 2 8:1 /var/lib/docker/containers/3f/hostname /etc/hostname rw - ext4 x rw\n",
                "0::/\n") == "docker");
  CHECK(kind_by("1 2 8:1 /containers/storage/overlay-containers/3f/userdata/hosts /etc/hosts rw "
                "- ext4 x rw\n",
                "0::/\n") == "podman");
}

TEST_CASE("Docker's file alone makes no container of a disk that an image was unpacked onto") {
  CHECK(kind_of({{"/.dockerenv", ""}, {"/proc/self/mountinfo", kDisk}}).empty());
  CHECK(kind_of({{"/.dockerenv", ""}, {"/proc/self/mountinfo", kLayers}}) == "docker");
  CHECK(kind_of({{"/.dockerenv", ""}}) == "docker");  // this recording has no list of mounts
  // If Docker stores images on btrfs or in plain folders, the root shows no layers. Docker still
  // mounts its name resolution files.
  const std::string resolved =
      "40 27 254:0 /x/resolv.conf /etc/resolv.conf rw - ext4 /dev/vda rw\n";
  CHECK(kind_of({{"/.dockerenv", ""}, {"/proc/self/mountinfo", kDisk + resolved}}) == "docker");
}

TEST_CASE("a variable of Kubernetes alone makes no pod of a machine") {
  const Texts inside{{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
  CHECK(kind_of({{"/.dockerenv", ""}}, inside) == "kubernetes");
  CHECK(kind_of({{"/proc/self/mountinfo", kDisk}}, inside).empty());
}

TEST_CASE("the name of a container manager counts last, and WSL is not a container") {
  CHECK(kind_of({{"/run/systemd/container", "lxc\n"}}) == "lxc");
  CHECK(kind_of({{"/run/systemd/container", "systemd-nspawn\n"}}) == "container");
  CHECK(kind_of({{"/run/systemd/container", "wsl\n"}}).empty());
  CHECK(kind_of({{"/proc/1/environ", std::string("A=1\0container=podman\0", 21)}}) == "podman");
  CHECK(kind_of({}, {{"container", "oci"}}) == "container");
}
