#include "system/container.hpp"

#include <string_view>
#include <utility>

#include "base/text_parts.hpp"
#include "system/cgroup.hpp"

namespace berth::system {
namespace {

bool says(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

struct Mounts {
  std::string root_type;  // file system type of the last mount at "/", which hides earlier ones
  bool docker = false, podman = false;
  bool name_resolution =
      false;  // the engine has mounted /etc/resolv.conf or similar files over those of the image
};

Mounts mounts_of(std::string_view mountinfo) {
  Mounts mounts;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const auto fields = mount_line(line);
    if (!fields) continue;
    if (fields->point == "/") mounts.root_type = fields->type;
    if (fields->point == "/etc/resolv.conf") mounts.name_resolution = true;
    if (fields->point != "/etc/hostname" && fields->point != "/etc/hosts") continue;
    mounts.name_resolution = true;
    if (says(fields->root, "/docker/containers/") || says(fields->root, "/containers/"))
      mounts.docker = true;
    if (says(fields->root, "/overlay-containers/")) mounts.podman = true;
  }
  return mounts;
}

std::string kind_by_group(std::string_view cgroup) {
  if (says(cgroup, "kubepods")) return "kubernetes";
  if (says(cgroup, "/libpod-") || says(cgroup, "libpod_")) return "podman";
  if (says(cgroup, "/docker/") || says(cgroup, "/docker-")) return "docker";
  if (says(cgroup, "/lxc/") || says(cgroup, "/lxc.payload")) return "lxc";
  return "";
}

/// Berth's name for a kind of container, from the name that the container's manager gives itself.
/// Other names ("systemd-nspawn", "oci") mean nothing to users; WSL is handled elsewhere.
std::string known(std::string_view name) {
  if (name.empty() || name == "wsl") return "";
  for (const std::string_view kind : {"docker", "podman", "lxc"})
    if (name == kind) return std::string(kind);
  return "container";
}

/// "container=lxc" from the environment of process 1, which only root may read.
std::string variable_of_init(const ContainerView& view) {
  const std::string text = view.read("/proc/1/environ").value_or("");
  for (const std::string_view row : split(text, '\0'))
    if (row.starts_with("container=")) return std::string(row.substr(10));
  return "";
}

}  // namespace

Container container_by_files(const ContainerView& view) {
  if (view.exists("/.singularity.d")) return {"apptainer", "/.singularity.d"};
  if (view.exists("/.flatpak-info")) return {"flatpak", "/.flatpak-info"};
  for (const char* account : {"/var/run/secrets/kubernetes.io/serviceaccount",
                              "/run/secrets/kubernetes.io/serviceaccount"})
    if (view.exists(account)) return {"kubernetes", account};

  const std::string mountinfo = view.read("/proc/self/mountinfo").value_or("");
  const std::string cgroup = view.read("/proc/self/cgroup").value_or("");
  const Mounts mounts = mounts_of(mountinfo);
  const std::string group = kind_by_group(cgroup);
  // The kubelet mounts a hosts file from its own folder into each pod. This mount is visible even
  // in a private cgroup namespace.
  if (says(mountinfo, "/kubelet/pods/")) return {"kubernetes", "/proc/self/mountinfo"};
  if (group == "kubernetes") return {group, "/proc/self/cgroup"};

  // Docker creates /.dockerenv, but an image that was unpacked onto a disk contains it too. In a
  // real container, the root is a layered file system, or the engine has mounted its own name
  // resolution files.
  const bool engine_made =
      mountinfo.empty() || mounts.root_type == "overlay" || mounts.name_resolution;
  if (view.exists("/.dockerenv") && engine_made) {
    if (view.variable("KUBERNETES_SERVICE_HOST")) return {"kubernetes", "KUBERNETES_SERVICE_HOST"};
    return {"docker", "/.dockerenv"};
  }
  if (view.exists("/run/.containerenv")) return {"podman", "/run/.containerenv"};
  if (!group.empty()) return {group, "/proc/self/cgroup"};
  if (mounts.podman) return {"podman", "/proc/self/mountinfo"};
  if (mounts.docker) return {"docker", "/proc/self/mountinfo"};
  for (const char* socket : {"/dev/lxd/sock", "/dev/incus/sock"})
    if (view.exists(socket)) return {"lxc", socket};
  // In a container, systemd writes this file. It contains the name that the container's manager
  // gave itself.
  const std::string systemd = view.read("/run/systemd/container").value_or("");
  if (std::string kind = known(trim(systemd)); !kind.empty())
    return {std::move(kind), "/run/systemd/container"};
  return {};
}

Container container_by_variables(const ContainerView& view) {
  if (std::string kind = known(variable_of_init(view)); !kind.empty())
    return {std::move(kind), "/proc/1/environ"};
  const std::string variable = view.variable("container").value_or("");
  if (std::string kind = known(variable); !kind.empty())
    return {std::move(kind), "container=" + variable};
  return {};
}

}  // namespace berth::system
