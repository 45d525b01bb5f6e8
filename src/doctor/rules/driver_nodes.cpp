// Rules DRV11 to DRV14: problems with the device nodes and with the nvidia_uvm module.
#include <algorithm>
#include <array>
#include <cerrno>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/queries.hpp"

namespace berth::doctor {
namespace {

constexpr int kCudaUnknown = 999, kLaunchFailure = 719;

/// Whether the container was started with "apptainer exec --nv": it has the driver's libraries and
/// the /dev of the host.
bool is_given_by_apptainer(Examination& look) {
  const auto* kind = look.see(look.facts.container.kind);
  const auto& names = look.facts.container.singularity_libraries;
  return kind != nullptr && *kind == "apptainer" && names &&
         std::any_of(names->begin(), names->end(),
                     [](const std::string& name) { return name.starts_with("libcuda.so"); });
}

/// Reports that the driver uses a GPU, but no device node exists. Either nothing created the nodes
/// (there is no desktop and no nvidia-modprobe), or the process runs in a service with its own
/// /dev.
void no_node_at_all(Examination& look) {
  const bool by_apptainer = is_given_by_apptainer(look);
  if (!by_apptainer &&
      (look.facts.machine.in_container || !look.missing(look.facts.container.kind)))
    return;
  const auto& driver = look.facts.driver;
  const bool fails = driver.nvml_init.value_or(0) != 0 || driver.cuda_init.value_or(0) != 0;
  if (!fails || !is_loaded(look, "nvidia")) return;
  for (const PciFunction* gpu : nvidia_gpus(look)) {
    if (gpu->driver.value_or("") != "nvidia") continue;
    Finding& finding = look.found(
        text("NVIDIA's device nodes are missing, although the driver is bound to the GPU at {}",
             gpu->address));
    finding.evidence.push_back(fmt::format("/dev/nvidiactl, /dev/nvidia0: {}", tr("missing")));
    if (driver.cuda_init) finding.evidence.push_back(cuda_says(*driver.cuda_init));
    finding.fix.push_back({"sudo nvidia-modprobe -c 0 -u",
                           by_apptainer
                               ? text("run this on the host; lasts until the next boot. Programs "
                                      "in the container have no permission to create the nodes")
                               : text("lasts until the next boot")});
    finding.fix.push_back(
        {"sudo systemctl enable --now nvidia-persistenced",
         text("creates the nodes at every boot; a systemd service with PrivateDevices=yes cannot "
              "see them: remove that line from its unit")});
    return;
  }
}

/// Reports a node whose major number belongs to no driver. The node was created by hand, or before
/// the module was last loaded.
bool node_without_driver(Examination& look, const std::vector<DeviceNode>& nodes) {
  for (const DeviceNode& one : nodes) {
    const int error = one.node.open_error.value_or(0);
    if ((one.path != "/dev/nvidia-uvm" && one.path != "/dev/nvidiactl") ||
        (error != ENXIO && error != ENODEV))
      continue;
    Finding& finding = look.found(
        text("{} belongs to no driver: its major number {} is not the module's current one",
             one.path, one.node.major));
    finding.evidence.push_back(
        fmt::format("open({}): {}", one.path, error == ENXIO ? "ENXIO" : "ENODEV"));
    finding.fix.push_back(
        {fmt::format("grep nvidia /proc/devices && sudo rm {} && sudo "
                     "nvidia-modprobe -c 0 -u",
                     one.path),
         text("recreates the node with the current major number. It can change at every boot: "
              "update container configurations that contain this number")});
    return true;
  }
  return false;
}

/// The current major number of nvidia_uvm, from /proc/devices, or else from the log line "Loaded
/// the UVM driver, major device number 510."
std::optional<unsigned> number_of_uvm(Examination& look) {
  if (const auto* majors = look.see(look.facts.nvidia.majors)) {
    const auto row = majors->find("nvidia-uvm");
    return row == majors->end() ? std::nullopt : std::optional(row->second);
  }
  const auto& log = look.facts.machine.kernel_log;
  if (!log) return std::nullopt;
  constexpr std::string_view kWords = "major device number ";
  const std::string line = newest_line(*log, {"Loaded the UVM driver", kWords});
  const std::size_t at = line.find(kWords);
  if (at == std::string::npos) return std::nullopt;
  const std::string digits = line.substr(at + kWords.size());
  const auto number = to_number(digits.substr(0, digits.find_first_not_of("0123456789")));
  return number ? std::optional(static_cast<unsigned>(*number)) : std::nullopt;
}

/// Reports a node whose major number is not the current one of nvidia_uvm. A udev rule created it
/// with a fixed number, or an outdated CDI spec passed it to a container.
bool node_of_another_number(Examination& look, const std::vector<DeviceNode>& nodes) {
  const auto node = std::find_if(nodes.begin(), nodes.end(), [](const DeviceNode& one) {
    return one.path == "/dev/nvidia-uvm";
  });
  const auto& cuda = look.facts.driver.cuda_init;
  if (node == nodes.end() || (cuda && *cuda == 0)) return false;
  const auto number = number_of_uvm(look);
  if (!number || *number == node->node.major || node->node.major == 0) return false;
  const bool inside = look.facts.container.kind.has_value();
  Finding& finding =
      look.found(text("/dev/nvidia-uvm belongs to no driver: its major number is {}, but the "
                      "loaded nvidia_uvm has {}",
                      node->node.major, *number));
  if (look.facts.nvidia.majors)
    finding.evidence.push_back(fmt::format("/proc/devices: {} nvidia-uvm", *number));
  else
    finding.evidence.push_back(
        quoted_line(newest_line(*look.facts.machine.kernel_log, {"Loaded the UVM driver"})));
  if (cuda) finding.evidence.push_back(cuda_says(*cuda));
  if (inside)
    finding.fix.push_back({"sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
                           text("run this on the host, then restart the container: its node has "
                                "the major number of an earlier boot")});
  else
    finding.fix.push_back(
        {"grep -rn nvidia-uvm /etc/udev/rules.d /lib/udev/rules.d",
         text("shows udev rules that create the node with a fixed number: remove them")});
  finding.fix.push_back(
      {"sudo rm -f /dev/nvidia-uvm /dev/nvidia-uvm-tools && sudo nvidia-modprobe "
       "-c 0 -u",
       text("recreates the node with the current major number. It can change at every boot: update "
            "container configurations that contain this number")});
  return true;
}

void uvm_missing(Examination& look) {
  if (!driver_runs(look)) return;
  const auto* nodes = look.see(look.facts.nvidia.nodes);
  if (nodes == nullptr) return;
  if (nodes->empty()) return no_node_at_all(look);
  if (node_without_driver(look, *nodes) || node_of_another_number(look, *nodes)) return;
  const bool unloaded = is_not_loaded(look, "nvidia_uvm");
  const auto uvm = look.facts.nvidia.node("/dev/nvidia-uvm");
  const auto& cuda = look.facts.driver.cuda_init;
  if (cuda && *cuda == 0) return;
  // If the node exists, opening it loads the module. A module that is not loaded is then a problem
  // only if CUDA returned an error.
  if (!uvm.is_absent() && !(unloaded && cuda)) return;
  // Outside a container, CUDA starts nvidia-modprobe, which creates the nodes if it has the
  // permission.
  const Fact<bool>& helper = look.facts.nvidia.modprobe_helper;
  const bool helps_itself =
      !look.facts.machine.in_container && (helper.value_or(false) || helper.is_unreadable());
  if (helps_itself && !cuda) return;
  Finding& finding = look.found(
      unloaded
          ? text("the module nvidia_uvm is not loaded: CUDA cannot start, though nvidia-smi works")
          : text("/dev/nvidia-uvm does not exist: CUDA cannot start, though nvidia-smi works"));
  if (unloaded) finding.evidence.push_back(text("/proc/modules lists nvidia, but not nvidia_uvm"));
  std::string names;
  for (const DeviceNode& one : *nodes) names += (names.empty() ? "" : " ") + one.path;
  finding.evidence.push_back(text("existing NVIDIA nodes: {}", names));
  if (cuda) finding.evidence.push_back(cuda_says(*cuda));
  finding.fix.push_back(
      {"sudo nvidia-modprobe -c 0 -u", text("lasts until the next boot; for a container, run this "
                                            "on the host, then restart the container")});
  finding.fix.push_back(
      {"echo nvidia_uvm | sudo tee /etc/modules-load.d/nvidia-uvm.conf\n"
       "sudo systemctl enable nvidia-persistenced",
       text("does this at every boot; for Docker, add a drop-in to docker.service with "
            "ExecStartPre=/usr/bin/nvidia-modprobe -c 0 -u")});
}

/// Reports nodes of a Jetson that the user has no permission to open. These nodes belong to the
/// group video or render.
void tegra_permission(Examination& look) {
  const auto* nodes = look.see(look.facts.nodes.tegra);
  const auto* identity = look.see(look.facts.process.identity);
  if (nodes == nullptr || identity == nullptr || identity->uid == 0) return;
  for (const GpuNode& one : *nodes) {
    if (one.node.open_error.value_or(0) != EACCES) continue;
    Finding& finding =
        look.found(text("user {} has no permission to open {} (mode {})", identity->uid, one.path,
                        fmt::format("{:04o}", one.node.mode)));
    finding.evidence.push_back(
        text("the node belongs to user {} and group {}; this process has user {} and groups {}",
             one.node.uid, one.node.gid, identity->uid, fmt::join(identity->groups, " ")));
    finding.fix.push_back({"sudo usermod -aG video,render \"$USER\"", text("then log in again")});
    return;
  }
}

/// Whether the node has the mode that the module's parameter DeviceFileMode sets. If so,
/// nvidia-modprobe would set the same mode again.
bool is_set_by_driver(Examination& look, const Node& node) {
  const auto& all = look.facts.nvidia.parameters;
  if (!all || !all->contains("DeviceFileMode")) return false;
  const auto mode = to_number(all->at("DeviceFileMode"));
  return mode && static_cast<mode_t>(*mode) == (node.mode & 0777);
}

void node_permission(Examination& look) {
  constexpr gid_t kOverflow =
      65534;  // group id of all groups outside the user namespace; CTR12 reports these nodes
  if (look.facts.machine.is_jetson) return tegra_permission(look);
  if (!driver_runs(look)) return;
  const auto* nodes = look.see(look.facts.nvidia.nodes);
  const auto* identity = look.see(look.facts.process.identity);
  if (nodes == nullptr || identity == nullptr || identity->uid == 0) return;
  const DeviceNode* refused = nullptr;
  for (const DeviceNode& one : *nodes) {
    const bool counts =
        one.path.find("caps") == std::string::npos && one.path != "/dev/nvidia-modeset";
    if (counts && one.node.open_error.value_or(0) == EACCES && one.node.gid != kOverflow &&
        refused == nullptr)
      refused = &one;
  }
  if (refused == nullptr) return;
  const Node& node = refused->node;
  Finding& finding =
      look.found(text("user {} has no permission to open {} (mode {})", identity->uid,
                      refused->path, fmt::format("{:04o}", node.mode)));
  finding.evidence.push_back(
      text("the node belongs to user {} and group {}; this process has user {} and groups {}",
           node.uid, node.gid, identity->uid, fmt::join(identity->groups, " ")));
  for (const char* key : {"ModifyDeviceFiles", "DeviceFileUID", "DeviceFileGID", "DeviceFileMode"})
    if (const auto& all = look.facts.nvidia.parameters; all && all->contains(key))
      finding.evidence.push_back(
          fmt::format("/proc/driver/nvidia/params: {}: {}", key, printable(all->at(key))));
  if ((node.mode & 060) == 060 && node.gid != 0)
    finding.fix.push_back(
        {fmt::format("sudo usermod -aG \"$(getent group {} | cut -d: -f1)\" \"$USER\"", node.gid),
         text("then log in again")});
  finding.fix.push_back(
      {"grep -rn NVreg_DeviceFile /etc/modprobe.d /usr/lib/modprobe.d\n"
       "grep -rn nvidia /etc/udev/rules.d",
       text("shows settings that change the nodes' mode from the driver's default 0666: remove "
            "them, then reboot")});
  if (!is_set_by_driver(look, node))
    finding.fix.push_back({"sudo nvidia-modprobe -c 0 -c 255 -u",
                           text("restores the mode that is set in the driver's configuration")});
}

/// Whether the log shows that nvidia_uvm was loaded again after the last resume.
bool reloaded_since_resume(const std::vector<std::string>& log) {
  std::size_t resumed = 0, loaded = 0;
  for (std::size_t i = 0; i < log.size(); ++i) {
    if (log[i].find("PM: suspend exit") != std::string::npos) resumed = i + 1;
    if (log[i].find("Loaded the UVM driver") != std::string::npos) loaded = i + 1;
  }
  return resumed != 0 && loaded > resumed;
}

void uvm_after_suspend(Examination& look) {
  if (!driver_runs(look)) return;
  const int* cuda = look.see(look.facts.driver.cuda_init);
  if (cuda == nullptr || (*cuda != kCudaUnknown && *cuda != kLaunchFailure)) return;
  if (look.facts.driver.nvml_init.value_or(0) != 0) return;
  // Do nothing if the node is missing or cannot be opened, because other rules report that.
  const auto uvm = look.facts.nvidia.node("/dev/nvidia-uvm");
  if (uvm.is_absent() || (uvm && uvm->node.open_error.value_or(0) != 0)) return;
  const int slept = look.facts.machine.suspends.value_or(0);
  const auto& log = look.facts.machine.kernel_log;
  const bool known_sleep = slept > 0 || (log && !newest_line(*log, {"PM: suspend exit"}).empty());
  if (log && reloaded_since_resume(*log)) return;
  Finding& finding = look.found(
      known_sleep
          ? text("nvidia_uvm stopped working after a suspend: CUDA does not start, but NVML works")
          : text("nvidia_uvm is in a bad state: CUDA does not start, but NVML works"));
  finding.evidence.push_back(cuda_says(*cuda));
  if (look.facts.driver.nvml_init) finding.evidence.emplace_back("nvmlInit: 0");
  if (slept > 0)
    finding.evidence.push_back(fmt::format("/sys/power/suspend_stats/success: {}", slept));
  finding.fix.push_back(
      {"sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm",
       text("first end the programs that use CUDA; other programs can keep running")});
  finding.fix.push_back(
      {"echo 'options nvidia NVreg_PreserveVideoMemoryAllocations=1' | sudo tee "
       "/etc/modprobe.d/nvidia-sleep.conf\n"
       "sudo systemctl enable nvidia-suspend nvidia-resume nvidia-hibernate",
       text("keeps nvidia_uvm working after a suspend; takes effect after a reboot")});
}

void hmm_kaslr(Examination& look) {
  if (!may_concern_nvidia(look.facts)) return;
  const std::string line = newest_line(look, {"devmem_alloc_pagemap", "err -34"});
  if (line.empty()) return;
  if (look.facts.driver.cuda_init && *look.facts.driver.cuda_init == 0) return;
  Finding& finding = look.found(
      text("nvidia_uvm found no address range for HMM, because KASLR has placed the kernel there"));
  finding.evidence.push_back(quoted_line(line));
  if (look.facts.driver.cuda_init)
    finding.evidence.push_back(cuda_says(*look.facts.driver.cuda_init));
  finding.fix.push_back(
      {"echo 'options nvidia_uvm uvm_disable_hmm=1' | sudo tee /etc/modprobe.d/nvidia-uvm.conf\n"
       "sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm",
       text("programs then cannot use malloc memory on the GPU")});
  finding.fix.push_back({"", text("or boot the kernel with the parameter nokaslr")});
}

constexpr auto kDriverNodesRules = std::to_array<Rule>({
    {"DRV11", Layer::kDriver, Severity::kFatal, true,
     msgid("nvidia_uvm or its device node missing"), "DRV13 FW*", uvm_missing},
    {"DRV12", Layer::kDriver, Severity::kFatal, true, msgid("no permission for the device nodes"),
     "DRV13 DRV15 LIB01 FW*", node_permission},
    {"DRV13", Layer::kDriver, Severity::kFatal, true,
     msgid("nvidia_uvm not working after a suspend"), "FW* RT*", uvm_after_suspend},
    {"DRV14", Layer::kDriver, Severity::kFatal, true, msgid("a conflict between HMM and KASLR"),
     "DRV13 DRV15 FW*", hmm_kaslr},
});

}  // namespace

std::span<const Rule> driver_node_rules() {
  return kDriverNodesRules;
}

}  // namespace berth::doctor
