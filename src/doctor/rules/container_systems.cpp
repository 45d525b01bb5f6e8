// Rules CTR for system containers (LXC), rootless containers, Apptainer, and containers with AMD
// GPUs. Also for container packages with known faults.
#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// Whether this is a label of SELinux, which has four parts:
/// "system_u:system_r:svirt_lxc_net_t:s0". AppArmor's labels have one part.
bool is_of_selinux(const std::string& label) {
  return std::count(label.begin(), label.end(), ':') >= 3;
}

/// Reports that SELinux denies access to a node, although the node's mode allows access for all
/// users. Label types differ between systems (container_t, svirt_lxc_net_t, spc_t). If the type is
/// not container_t, NVML must also report "no permission".
void selinux(Examination& look) {
  if (container_kind(look).empty()) return;
  const auto* label = look.see(look.facts.container.label);
  const std::string shown = label == nullptr ? "" : *label;
  constexpr int kNoPermission = 4;
  if (!contains(shown, ":container_t:") && look.facts.driver.nvml_init.value_or(0) != kNoPermission)
    return;
  const auto control_node = look.facts.nodes.nvidia_node("/dev/nvidiactl");
  const auto* control = look.see(control_node);
  if (control == nullptr || control->node.open_error != EACCES || (control->node.mode & 6) != 6)
    return;
  const bool other = !shown.empty() && !is_of_selinux(shown);
  Finding& finding = look.found(
      other ? text("a security module denies the container access to the GPU's device nodes")
            : text("SELinux denies the container access to the GPU's device nodes"));
  if (!shown.empty()) finding.evidence.push_back(fmt::format("/proc/self/attr/current: {}", shown));
  finding.evidence.push_back(
      fmt::format("open(/dev/nvidiactl): EACCES, mode {:04o}", control->node.mode));
  if (other) {
    finding.fix.push_back({"docker run --security-opt apparmor=unconfined --gpus all IMAGE",
                           text("for this container only; dmesg shows which rule denied it")});
    return;
  }
  // The boolean container_use_devices exists only in policies with the type container_t.
  if (!shown.empty() && !contains(shown, ":container_t:")) {
    finding.fix.push_back({"docker run --security-opt label=disable --gpus all IMAGE",
                           text("for this container only: SELinux no longer confines it")});
    return;
  }
  finding.fix.push_back({"sudo setsebool -P container_use_devices true",
                         text("run this on the host: it applies to all containers")});
  finding.fix.push_back({"podman run --security-opt label=disable IMAGE",
                         text("for this container only: SELinux no longer confines it")});
}

constexpr gid_t kNobodysGroup =
    65534;  // the kernel shows this id for groups that are not mapped into the user namespace

void rootless_groups(Examination& look) {
  if (container_kind(look).empty()) return;
  std::vector<GpuNode> nodes;
  const auto control = look.facts.nodes.nvidia_node("/dev/nvidiactl");
  if (const auto* one = look.see(control)) nodes.push_back(*one);
  if (const auto* kfd = look.see(look.facts.nodes.kfd)) nodes.push_back(*kfd);
  // Ignore NVIDIA's render nodes, because CUDA does not open them. A node of unknown vendor counts
  // only if the machine has GPUs of AMD or Intel, or none of NVIDIA.
  const bool of_others = !gpus_on_bus(look, kVendorAmd).empty() ||
                         !gpus_on_bus(look, kVendorIntel).empty() || !machine_has_nvidia(look);
  if (const auto* render = look.see(look.facts.nodes.render))
    std::copy_if(render->begin(), render->end(), std::back_inserter(nodes),
                 [&](const GpuNode& one) {
                   return one.vendor == 0 ? of_others : one.vendor != kVendorNvidia;
                 });
  // Add the GPU nodes only if none can be opened: one is enough for a container. Their group may
  // differ from that of the control node.
  const auto gpus = look.facts.nodes.nvidia_gpus();
  const auto* own = look.see(gpus);
  if (own != nullptr && std::all_of(own->begin(), own->end(), [](const GpuNode& one) {
        return one.node.open_error == EACCES;
      }))
    nodes.insert(nodes.end(), own->begin(), own->end());
  for (const GpuNode& one : nodes) {
    if (one.node.open_error != EACCES || one.node.gid != kNobodysGroup) continue;
    if ((one.node.mode & 6) == 6 || (one.node.mode & 060) != 060) continue;
    Finding& finding =
        look.found(text("the rootless container lost the group that may open {}", one.path));
    finding.evidence.push_back(fmt::format("{}: mode {:04o}, gid {}; open: EACCES", one.path,
                                           one.node.mode, one.node.gid));
    finding.fix.push_back(
        {"podman run --group-add keep-groups IMAGE",
         text("restart the container like this; the option needs the runtime crun")});
    finding.fix.push_back({"sudo setfacl -m u:USER:rw " + pasted(one.path),
                           text("rootless Docker keeps no groups: run this on the host instead; it "
                                "lasts until the next boot")});
    return;
  }
}

/// The first NVIDIA node that CUDA needs in a container and that is missing or cannot be opened; ""
/// if there is none. `denied` is set if the node exists, but access is denied.
std::string lacking_node(Examination& look, bool& denied) {
  const auto* nodes = look.see(look.facts.nodes.nvidia);
  if (nodes == nullptr) return "";
  for (const char* path : {"/dev/nvidiactl", "/dev/nvidia-uvm"}) {
    const auto one = std::find_if(nodes->begin(), nodes->end(),
                                  [&](const GpuNode& node) { return node.path == path; });
    denied = one != nodes->end() && one->denied();
    if (one == nodes->end() || denied) return path;
  }
  denied = false;
  const auto gpus = look.facts.nodes.nvidia_gpus();
  return gpus && gpus->empty() ? "/dev/nvidia0" : "";
}

void lxc_nodes(Examination& look) {
  if (container_kind(look) != "lxc" || !machine_has_nvidia(look)) return;
  bool denied = false;
  const std::string path = lacking_node(look, denied);
  if (path.empty()) return;
  const auto* nodes = look.see(look.facts.nodes.nvidia);
  const auto* nvml = look.see(look.facts.files.nvml);
  Finding& finding = look.found(denied ? text("the system container may not open {}", path)
                                       : text("the system container was not given {}", path));
  // The container got no part of NVIDIA's driver, so it is probably not meant to use the GPU.
  if (nodes->empty() && (nvml == nullptr || nvml->empty())) finding.severity = Severity::kInfo;
  finding.evidence.push_back(fmt::format("{}; {}: {}", look.facts.container.marker, path,
                                         denied ? "EPERM" : tr("missing")));
  if (nvml != nullptr && !nvml->empty()) finding.evidence.push_back(nvml->front().path);
  finding.fix.push_back(
      {"lxc config device add CONTAINER gpu gpu\n"
       "lxc config set CONTAINER nvidia.runtime true\nlxc restart CONTAINER",
       text("run this on the host, for LXD; for Incus, write incus instead of lxc")});
  finding.fix.push_back(
      {"lxc.cgroup2.devices.allow: c 195:* rwm\n"
       "lxc.mount.entry: /dev/nvidiactl dev/nvidiactl none bind,optional,create=file\n"
       "lxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind,optional,create=file\n"
       "lxc.mount.entry: /dev/nvidia-uvm dev/nvidia-uvm none bind,optional,create=file",
       text("add these lines to the container's configuration file on the host, and another "
            "'allow' line for nvidia-uvm's major number (ls -l /dev/nvidia-uvm)")});
}

void lxc_nested(Examination& look) {
  if (container_kind(look) != "lxc") return;
  const auto& engines = look.facts.container.engines;
  const auto* inside = look.see(look.facts.container.user_namespace);
  const auto* toolkit = look.see(engines.toolkit);
  if (inside == nullptr || !*inside || toolkit == nullptr) return;
  const auto* config = look.see(engines.toolkit_config);
  if (config != nullptr && toml_sets(*config, "no-cgroups", "true")) return;
  if (engines.toolkit_config.is_unreadable()) return;
  Finding& finding =
      look.found(text("NVIDIA's container runtime tries to change a device filter that belongs to "
                      "the host of this system container"));
  finding.evidence.push_back(
      fmt::format("{}; /proc/self/uid_map; {}; /etc/nvidia-container-runtime/config.toml: "
                  "no-cgroups = true: {}",
                  look.facts.container.marker, *toolkit, tr("missing")));
  finding.fix.push_back(
      {"sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place\n"
       "sudo systemctl restart docker",
       text("run this in the system container (LXC, Incus); the host must also pass its device "
            "nodes to it")});
}

void lxc(Examination& look) {
  lxc_nodes(look);
  lxc_nested(look);
}

/// The first installed package that uses ROCm, according to its name or version; "" if there is
/// none.
std::string rocm_package(Examination& look) {
  const TorchBuild* torch = look.see(look.facts.python.torch);
  if (torch != nullptr && torch->hip) return fmt::format("torch {}", torch->version);
  const auto* installed = look.see(look.facts.python.distributions);
  if (installed == nullptr) return "";
  for (const Distribution& one : *installed)
    if (contains(one.name, "-rocm") || contains(one.version, "+rocm"))
      return fmt::format("{} {}", one.name, one.version);
  return "";
}

/// The folder, package or variable that shows that the container is for ROCm; "" if there is none.
std::string rocm_sign(Examination& look) {
  if (const auto* folder = look.see(look.facts.rocm.folder)) return *folder;
  if (std::string package = rocm_package(look); !package.empty()) return package;
  for (const char* name : {"ROCM_PATH", "ROCM_HOME", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                           "HSA_OVERRIDE_GFX_VERSION", "ROCM_VERSION"}) {
    std::string shown = shown_variable(look, name);
    if (!shown.empty()) return shown;
  }
  return "";
}

void rocm_container(Examination& look) {
  const std::string kind = container_kind(look);
  if (kind.empty() || gpus_on_bus(look, kVendorAmd).empty()) return;
  const bool no_kfd = look.missing(look.facts.nodes.kfd);
  const auto* render = look.see(look.facts.nodes.render);
  if (render == nullptr || look.facts.nodes.kfd.is_unreadable()) return;
  if (!no_kfd && !render->empty()) return;
  const std::string sign = rocm_sign(look);
  // Without /dev/kfd and without a sign of ROCm, the container is not meant to use the GPU.
  if (sign.empty() && no_kfd) return;
  Finding& finding =
      look.found(text("the container was not given {}", no_kfd ? "/dev/kfd" : "/dev/dri/renderD*"));
  finding.evidence.push_back(fmt::format("{}; {}: {}", look.facts.container.marker,
                                         no_kfd ? "/dev/kfd" : "/dev/dri/renderD*", tr("missing")));
  if (!sign.empty()) finding.evidence.push_back(sign);
  finding.fix.push_back(
      {fmt::format("{} run --device /dev/kfd --device /dev/dri --group-add {} IMAGE",
                   kind == "podman" ? "podman" : "docker",
                   kind == "podman" ? "keep-groups" : "video --group-add render"),
       text("restart the container like this")});
}

void apptainer(Examination& look) {
  if (container_kind(look) != "apptainer" || !machine_has_nvidia(look)) return;
  const auto control = look.facts.nodes.nvidia_node("/dev/nvidiactl");
  const auto* cuda = look.see_whole(look.facts.files.cuda);
  if (look.see(control) == nullptr || cuda == nullptr || !cuda->empty()) return;
  const auto& names = look.facts.container.singularity_libraries;
  if (names.is_unreadable()) static_cast<void>(look.see(names));
  if (names.is_unreadable()) return;
  for (const std::string& name : names.value_or({}))
    if (name.starts_with("libcuda.so")) return;
  Finding& finding =
      look.found(text("the container was started without --nv, so it has the GPU's nodes but not "
                      "the driver's libraries"));
  finding.evidence.push_back(
      fmt::format("/.singularity.d/libs/libcuda.so.1: {}; /dev/nvidiactl", tr("missing")));
  finding.fix.push_back(
      {"apptainer exec --nv IMAGE COMMAND", text("restart the container like this")});
}

bool holds(Examination& look, const std::string& when) {
  const auto& engines = look.facts.container.engines;
  if (when.empty()) return true;
  if (when == "no-cgroups")
    return engines.toolkit_config && toml_sets(*engines.toolkit_config, "no-cgroups", "true");
  return engines.packages && engines.packages->contains(when);
}

/// Docker 28 and newer add rules to iptables' raw table for each container. If the kernel has no
/// such table, containers do not start.
void docker_without_raw_table(Examination& look, const std::map<std::string, std::string>& all) {
  const auto* raw = look.see(look.facts.container.engines.raw_table);
  if (!look.facts.machine.is_jetson || raw == nullptr || *raw) return;
  for (const char* name : {"docker-ce", "docker.io"}) {
    const auto one = all.find(name);
    if (one == all.end() || is_older(one->second, "28")) continue;
    Finding& finding = look.found(text(
        "Docker {} needs the iptables raw table, which this kernel lacks: containers do not start",
        beginning(one->second)));
    finding.evidence = {fmt::format("/var/lib/dpkg/status: {} {}", name, printable(one->second)),
                        fmt::format("/lib/modules/{}/modules.dep: iptable_raw: {}",
                                    look.facts.machine.kernel.value_or(""), tr("missing")),
                        "https://github.com/moby/moby/issues/49557"};
    finding.fix.push_back(
        {"sudo mkdir -p /etc/systemd/system/docker.service.d && printf '[Service]\\n"
         "Environment=DOCKER_INSECURE_NO_IPTABLES_RAW=1\\n' | sudo tee "
         "/etc/systemd/system/docker.service.d/raw.conf && sudo systemctl daemon-reload && sudo "
         "systemctl restart docker",
         text("Docker reads this variable since 28.0.2; or install 27.5.1 and hold it: sudo "
              "apt-mark hold docker-ce")});
    return;
  }
}

void faulty_package(Examination& look) {
  const auto* all = look.see(look.facts.container.engines.packages);
  if (all == nullptr || !look.missing(look.facts.container.kind)) return;
  docker_without_raw_table(look, *all);
  for (const SystemPackage& row : look.knowledge.compatibility().system_packages) {
    const auto one = all->find(row.package);
    if (one == all->end() || !in_range(one->second, row.versions) || !holds(look, row.when))
      continue;
    Finding& finding =
        look.found(text("{} is a release with a known fault: {}",
                        row.package + " " + printable(one->second), tr(row.what.c_str())));
    finding.evidence = {"/var/lib/dpkg/status: " + row.package + " " + printable(one->second),
                        row.source};
    finding.fix.push_back(
        {"sudo apt-get update && sudo apt-get install --only-upgrade "
         "nvidia-container-toolkit nvidia-container-toolkit-base "
         "libnvidia-container-tools libnvidia-container1",
         text("release {} does not have this fault", row.use)});
    return;
  }
}

constexpr auto kContainerSystemsRules = std::to_array<Rule>({
    {"CTR11", Layer::kContainer, Severity::kFatal, true,
     msgid("SELinux denying access to the GPU's nodes"), "DRV12 AMD01 CTR02", selinux},
    {"CTR12", Layer::kContainer, Severity::kFatal, true,
     msgid("a rootless container that lost its groups"),
     "DRV12 AMD01 XPU03 CTR11 CTR19 DRV11 LIB01 FW*", rootless_groups},
    {"CTR18", Layer::kContainer, Severity::kFatal, true,
     msgid("a system container (LXC) without the GPU's nodes"), "DRV11 DRV12 LIB* FW* CTR02", lxc},
    {"CTR19", Layer::kContainer, Severity::kFatal, true, msgid("a container without ROCm's nodes"),
     "AMD01 FW*", rocm_container},
    {"CTR20", Layer::kContainer, Severity::kError, true, msgid("Apptainer without --nv"),
     "LIB* FW*", apptainer},
    {"CTR28", Layer::kContainer, Severity::kError, true,
     msgid("a container package with a known fault"), "", faulty_package},
});

}  // namespace

std::span<const Rule> container_system_rules() {
  return kContainerSystemsRules;
}

}  // namespace berth::doctor
