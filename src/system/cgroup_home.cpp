// Where a process runs, from the names of its control groups. No other way works for every user,
// because the engines' sockets are protected. The engines' default names:
// - docker: /docker/ID · /system.slice/docker-ID.scope
// - podman: /machine.slice/libpod-ID.scope[/container] · /libpod_parent/libpod-ID ·
//   libpod-payload-ID
// - containerd: cri-containerd-ID.scope · nerdctl-ID.scope · kubepods….slice:cri-containerd:ID
// - CRI-O: crio-ID.scope · crio-ID
// - Kubernetes: /kubepods/CLASS/podUID/ID · kubepods-CLASS-podUID.slice (the uid with _ for -)
// - LXC, LXD: /lxc/NAME · lxc.payload.NAME
// - nspawn: /machine.slice/machine-NAME.scope · systemd-nspawn@NAME.service
// - Slurm: /slurm/uid_U/job_J/… · slurmstepd.scope/job_J/…
// Containers nest, so the deepest name wins. Helpers outside the container (conmon, lxc.monitor)
// have groups with similar names beside it.
#include <algorithm>
#include <optional>

#include "base/text_parts.hpp"
#include "system/process.hpp"

namespace berth::system {

namespace {

/// A full container id has 64 digits, and group names contain all of them. Engines display only 12.
bool is_container_id(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<std::string_view> after(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return text.substr(prefix.size());
}

std::string_view without_suffix(std::string_view text, std::string_view suffix) {
  if (text.ends_with(suffix)) text.remove_suffix(suffix.size());
  return text;
}

/// The container by the prefix of its group: "docker-ID.scope", "crio-ID",
/// "kubepods-….slice:cri-containerd:ID" → "docker ID", "cri-o ID", "containerd ID".
std::string container_by_prefix(std::string_view segment) {
  struct Engine {
    std::string_view prefix, name;
  };
  static constexpr Engine kEngines[] = {
      {"docker-", "docker"},
      {"libpod-payload-", "podman"},
      {"libpod-", "podman"},
      {"cri-containerd-", "containerd"},
      {"nerdctl-", "containerd"},
      {"crio-", "cri-o"},
      {"cri-containerd:", "containerd"},
      {"crio:", "cri-o"},
      {"docker:", "docker"},
      {"libpod:", "podman"},
  };
  // runc's systemd driver writes "SLICE:PREFIX:ID". Some setups use this text as the name of the
  // group.
  if (const auto colon = segment.find(':');
      colon != std::string_view::npos && segment.substr(0, colon).ends_with(".slice"))
    segment.remove_prefix(colon + 1);
  for (const Engine& engine : kEngines) {
    const auto rest = after(segment, engine.prefix);
    if (rest && is_container_id(without_suffix(*rest, ".scope")))
      return std::string(engine.name) + " " + std::string(without_suffix(*rest, ".scope"));
  }
  return {};
}

/// Decodes "\x2d", which systemd writes for '-' in names. No other escape occurs in names of
/// machines.
std::string unescape(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto at = text.find("\\x2d");
    out += text.substr(0, at);
    if (at == std::string_view::npos) break;
    out += '-';
    text.remove_prefix(at + 4);
  }
  return out;
}

/// A container that runs a whole system: LXC or nspawn. "" if the segment is neither.
std::string system_container(std::string_view parent, std::string_view segment) {
  if (const auto name = after(segment, "lxc.payload."); name && !name->empty())
    return "lxc " + printable(*name);
  if (parent == "lxc" || parent == "lxc.payload") return "lxc " + printable(segment);
  if (const auto name = after(segment, "systemd-nspawn@"); name && name->ends_with(".service"))
    return "nspawn " + printable(unescape(without_suffix(*name, ".service")));
  const auto machine = after(segment, "machine-");
  // A group "machine-qemu…" belongs to a virtual machine of libvirt. The process in this group is
  // the emulator, which runs on the host.
  if (parent == "machine.slice" && machine && machine->ends_with(".scope") &&
      !machine->starts_with("qemu"))
    return "nspawn " + printable(unescape(without_suffix(*machine, ".scope")));
  return {};
}

/// The uid of the pod in "pod8d3c…" or "kubepods-burstable-pod8d3c_….slice"; "" if there is none.
std::string pod_of(std::string_view segment, bool below_kubepods) {
  segment = segment.substr(0, segment.find(':'));
  std::string_view uid;
  if (const auto at = segment.rfind("-pod");
      at != std::string_view::npos && segment.find("kubepods") < at && segment.ends_with(".slice"))
    uid = without_suffix(segment.substr(at + 4), ".slice");
  else if (below_kubepods && segment.starts_with("pod"))
    uid = segment.substr(3);
  // A pod from the API server has a uid of 36 characters. A static pod has 32: a hash of its file.
  if (uid.size() != 36 && uid.size() != 32) return {};
  if (uid.find_first_not_of("0123456789abcdef-_") != std::string_view::npos) return {};
  std::string pod(uid);
  std::replace(pod.begin(), pod.end(), '_', '-');
  return pod;
}

bool is_unit(std::string_view segment) {
  return segment.ends_with(".service") || segment.ends_with(".scope");
}

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

struct PathHome {
  Home home;
  bool slurm = false;  // home.unit is a Slurm job, which is more precise than a systemd unit
};

/// The container to which the group `segment` belongs; "" if it belongs to none.
std::string container_of(std::string_view parent, std::string_view segment, bool below_kubepods) {
  if (auto container = container_by_prefix(segment); !container.empty()) return container;
  if (is_container_id(segment))
    return (parent == "docker" ? "docker "
            : below_kubepods   ? "cri "
                               : "container ") +
           std::string(segment);
  return system_container(parent, segment);
}

PathHome home_of_path(std::string_view path) {
  PathHome found;
  bool below_kubepods = false, below_slurm = false;
  std::string_view parent;
  while (!path.empty()) {
    const auto slash = path.find('/');
    const std::string_view segment = path.substr(0, slash);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    if (segment.empty() || segment == "..") continue;
    below_kubepods = below_kubepods || segment.find("kubepods") != std::string_view::npos;
    below_slurm = below_slurm || segment == "slurm" || segment.starts_with("slurm_") ||
                  segment.ends_with("slurmstepd.scope");
    if (auto pod = pod_of(segment, below_kubepods); !pod.empty()) found.home.pod = std::move(pod);
    const auto job = after(segment, "job_");
    if (auto container = container_of(parent, segment, below_kubepods); !container.empty()) {
      found.home.container = std::move(container);
      if (!found.slurm) found.home.unit.clear();  // a unit outside the container does not count
    } else if (below_slurm && job && all_digits(*job)) {
      found.home.unit = "slurm job " + std::string(*job);
      found.slurm = true;
    } else if (is_unit(segment) && !found.slurm) {
      found.home.unit = printable(segment);
    }
    parent = segment;
  }
  return found;
}

/// The path in a line "HIERARCHY:CONTROLLERS:PATH"; the path itself may contain colons.
std::optional<std::string_view> path_of_line(std::string_view line) {
  const auto first = line.find(':');
  if (first == std::string_view::npos) return std::nullopt;
  const auto second = line.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  return line.substr(second + 1);
}

}  // namespace

Home home_of(std::string_view cgroup_file) {
  Home home;
  bool slurm = false, unit_is_inside = true;
  // Version 1 has one line per controller. A process may be in different groups for different
  // controllers, so combine all lines.
  while (!cgroup_file.empty()) {
    const auto end = cgroup_file.find('\n');
    const auto path = path_of_line(cgroup_file.substr(0, end));
    cgroup_file.remove_prefix(end == std::string_view::npos ? cgroup_file.size() : end + 1);
    if (!path) continue;
    PathHome found = home_of_path(without_suffix(*path, " (deleted)"));
    if (home.unit.empty() || (found.slurm && !slurm)) {
      unit_is_inside = found.slurm || !found.home.container.empty();
      home.unit = std::move(found.home.unit);
    }
    if (home.container.empty()) home.container = std::move(found.home.container);
    if (home.pod.empty()) home.pod = std::move(found.home.pod);
    slurm = slurm || found.slurm;
  }
  // On a hybrid system, the engine may have moved its container only in version 1. Version 2 then
  // still shows the engine's own unit.
  if (!home.container.empty() && !unit_is_inside) home.unit.clear();
  return home;
}

}  // namespace berth::system
