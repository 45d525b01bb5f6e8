// Rules DRV11 to DRV18 and DRV22: what stands around the module: nodes, daemons, installs.
#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <set>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/sight.hpp"

namespace berth::doctor {
namespace {

constexpr int kCudaUnknown = 999, kCudaNotReady = 802, kCudaMps = 805, kCudaMpsFull = 808,
              kLaunchFailure = 719;

std::string cuda_says(int code) {
  return fmt::format("cuInit(0): {}", code);
}

bool driver_runs(Examination& look) {
  return may_concern_nvidia(look.facts) && !look.facts.machine.is_wsl &&
         !look.facts.machine.is_jetson && look.facts.machine.has_module("nvidia").value_or(true);
}

/// The driver has the GPU, and nobody has made its nodes: no desktop that would, and no
/// nvidia-modprobe; or a service that sees a /dev of its own.
void no_node_at_all(Examination& look) {
  if (look.facts.machine.in_container || !look.missing(look.facts.container.kind)) return;
  const auto& driver = look.facts.driver;
  const bool fails = driver.nvml_init.value_or(0) != 0 || driver.cuda_init.value_or(0) != 0;
  if (!fails || !is_loaded(look, "nvidia")) return;
  for (const PciFunction* gpu : nvidia_gpus(look)) {
    if (gpu->driver.value_or("") != "nvidia") continue;
    Finding& finding = look.found(text(
        "NVIDIA's device nodes are not there, though its driver has the GPU at {}", gpu->address));
    finding.evidence.push_back(fmt::format("/dev/nvidiactl, /dev/nvidia0: {}", tr("not there")));
    if (driver.cuda_init) finding.evidence.push_back(cuda_says(*driver.cuda_init));
    finding.fix.push_back({"sudo nvidia-modprobe -c 0 -u", text("until the next start")});
    finding.fix.push_back({"sudo systemctl enable --now nvidia-persistenced",
                           text("at every start; a service of systemd with PrivateDevices=yes sees "
                                "none of them: take that line out of its unit")});
    return;
  }
}

/// A node that was made by hand, or before the module was loaded anew: nobody has its number now.
bool node_without_driver(Examination& look, const std::vector<DeviceNode>& nodes) {
  for (const DeviceNode& one : nodes) {
    const int error = one.node.open_error.value_or(0);
    if ((one.path != "/dev/nvidia-uvm" && one.path != "/dev/nvidiactl") ||
        (error != ENXIO && error != ENODEV))
      continue;
    Finding& finding = look.found(
        text("{} leads to no driver: its major number, {}, is not the module's (any more)",
             one.path, one.node.major));
    finding.evidence.push_back(
        fmt::format("open({}): {}", one.path, error == ENXIO ? "ENXIO" : "ENODEV"));
    finding.fix.push_back({fmt::format("grep nvidia /proc/devices && sudo rm {} && sudo "
                                       "nvidia-modprobe -c 0 -u",
                                       one.path),
                           text("makes it anew with today's number, which changes from start to "
                                "start; a container's configuration that names it has to follow")});
    return true;
  }
  return false;
}

void uvm_missing(Examination& look) {
  if (!driver_runs(look)) return;
  const auto* nodes = look.see(look.facts.nvidia.nodes);
  if (nodes == nullptr) return;
  if (nodes->empty()) return no_node_at_all(look);
  if (node_without_driver(look, *nodes)) return;
  const bool unloaded = is_not_loaded(look, "nvidia_uvm");
  const auto uvm = look.facts.nvidia.node("/dev/nvidia-uvm");
  const auto& cuda = look.facts.driver.cuda_init;
  if (cuda && *cuda == 0) return;
  // A node without its module still loads that when it is opened; unless CUDA says that it did not.
  if (!uvm.is_absent() && !(unloaded && cuda)) return;
  // Outside of a container CUDA makes them by itself when it starts, if nvidia-modprobe may.
  const Fact<bool>& helper = look.facts.nvidia.modprobe_helper;
  const bool helps_itself =
      !look.facts.machine.in_container && (helper.value_or(false) || helper.is_unreadable());
  if (helps_itself && !cuda) return;
  Finding& finding = look.found(
      unloaded
          ? text("the module nvidia_uvm is not loaded: CUDA cannot start, though nvidia-smi works")
          : text("/dev/nvidia-uvm is not there: CUDA cannot start, though nvidia-smi works"));
  if (unloaded) finding.evidence.push_back(text("/proc/modules: nvidia, but no nvidia_uvm"));
  std::string names;
  for (const DeviceNode& one : *nodes) names += (names.empty() ? "" : " ") + one.path;
  finding.evidence.push_back(text("of NVIDIA's nodes there are {}", names));
  if (cuda) finding.evidence.push_back(cuda_says(*cuda));
  finding.fix.push_back({"sudo nvidia-modprobe -c 0 -u",
                         text("until the next start; for a container on the host, then start the "
                              "container again")});
  finding.fix.push_back(
      {"echo nvidia_uvm | sudo tee /etc/modules-load.d/nvidia-uvm.conf\n"
       "sudo systemctl enable nvidia-persistenced",
       text("at every start; for Docker: a drop-in of docker.service with "
            "ExecStartPre=/usr/bin/nvidia-modprobe -c 0 -u")});
}

/// A Jetson's nodes belong to a group, video or render.
void tegra_permission(Examination& look) {
  const auto* nodes = look.see(look.facts.nodes.tegra);
  const auto* identity = look.see(look.facts.process.identity);
  if (nodes == nullptr || identity == nullptr || identity->uid == 0) return;
  for (const GpuNode& one : *nodes) {
    if (one.node.open_error.value_or(0) != EACCES) continue;
    Finding& finding = look.found(text("user {} may not open {} (mode {})", identity->uid, one.path,
                                       fmt::format("{:04o}", one.node.mode)));
    finding.evidence.push_back(text("owner {}, group {}; this process is user {}, groups {}",
                                    one.node.uid, one.node.gid, identity->uid,
                                    fmt::join(identity->groups, " ")));
    finding.fix.push_back({"sudo usermod -aG video,render \"$USER\"", text("then log in again")});
    return;
  }
}

void node_permission(Examination& look) {
  constexpr gid_t kOverflow = 65534;  // a group from outside of this user namespace: CTR12
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
  Finding& finding = look.found(text("user {} may not open {} (mode {})", identity->uid,
                                     refused->path, fmt::format("{:04o}", node.mode)));
  finding.evidence.push_back(text("owner {}, group {}; this process is user {}, groups {}",
                                  node.uid, node.gid, identity->uid,
                                  fmt::join(identity->groups, " ")));
  for (const char* key : {"ModifyDeviceFiles", "DeviceFileUID", "DeviceFileGID", "DeviceFileMode"})
    if (const auto& all = look.facts.nvidia.parameters; all && all->contains(key))
      finding.evidence.push_back(
          fmt::format("/proc/driver/nvidia/params: {}: {}", key, printable(all->at(key))));
  if ((node.mode & 060) == 060 && node.gid != 0)
    finding.fix.push_back(
        {fmt::format("sudo usermod -aG \"$(getent group {} | cut -d: -f1)\" \"$USER\"", node.gid),
         text("then log in again")});
  finding.fix.push_back(
      {fmt::format("sudo chmod 0666 {}", pasted(refused->path)),
       text("the driver's default, until the next start; for good: remove what sets "
            "another mode in /etc/modprobe.d and /etc/udev/rules.d")});
}

/// Whether nvidia_uvm was loaded after the last resume, as far as the log tells.
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
  // Where the nodes are missing or closed, that is the reason.
  const auto uvm = look.facts.nvidia.node("/dev/nvidia-uvm");
  if (uvm.is_absent() || (uvm && uvm->node.open_error.value_or(0) != 0)) return;
  const int slept = look.facts.machine.suspends.value_or(0);
  const auto& log = look.facts.machine.kernel_log;
  const bool known_sleep = slept > 0 || (log && !newest_line(*log, {"PM: suspend exit"}).empty());
  if (log && reloaded_since_resume(*log)) return;
  Finding& finding = look.found(
      known_sleep ? text("nvidia_uvm has not survived a suspend: CUDA does not start, NVML does")
                  : text("nvidia_uvm is in a bad state: CUDA does not start, NVML does"));
  finding.evidence.push_back(cuda_says(*cuda));
  if (look.facts.driver.nvml_init) finding.evidence.emplace_back("nvmlInit: 0");
  if (slept > 0)
    finding.evidence.push_back(fmt::format("/sys/power/suspend_stats/success: {}", slept));
  finding.fix.push_back({"sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm",
                         text("ends nothing but programs that use CUDA")});
  finding.fix.push_back(
      {"echo 'options nvidia NVreg_PreserveVideoMemoryAllocations=1' | sudo tee "
       "/etc/modprobe.d/nvidia-sleep.conf\n"
       "sudo systemctl enable nvidia-suspend nvidia-resume nvidia-hibernate",
       text("so that it survives the next one; after a reboot")});
}

void hmm_kaslr(Examination& look) {
  if (!may_concern_nvidia(look.facts)) return;
  const std::string line = newest_line(look, {"devmem_alloc_pagemap", "err -34"});
  if (line.empty()) return;
  if (look.facts.driver.cuda_init && *look.facts.driver.cuda_init == 0) return;
  Finding& finding = look.found(
      text("nvidia_uvm found no address range for HMM, because KASLR has put the kernel there"));
  finding.evidence.push_back(quoted(line));
  if (look.facts.driver.cuda_init)
    finding.evidence.push_back(cuda_says(*look.facts.driver.cuda_init));
  finding.fix.push_back(
      {"echo 'options nvidia_uvm uvm_disable_hmm=1' | sudo tee /etc/modprobe.d/nvidia-uvm.conf\n"
       "sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm",
       text("costs programs the use of plain malloc memory on the GPU")});
  finding.fix.push_back({"", text("start the kernel with nokaslr")});
}

/// What to say where the service and the driver are not of one version; "" they are, or unknown.
std::string fabric_version_trouble(const NvidiaFacts& nvidia) {
  const std::string module = nvidia.module_version.value_or("");
  const std::string service = nvidia.fabric_manager.value_or("");
  if (!module.empty() && !service.empty() && compare_versions(module, service) != 0)
    return text("the fabric manager is {}, the driver {}: they must be the same",
                printable(service), printable(module));
  return "";
}

struct Fabric {
  int switches = 0;
  bool unfinished = false;  // a GPU says so
  bool finished = false;
  std::string state;
};

Fabric fabric_of(Examination& look) {
  Fabric fabric;
  if (const auto* functions = look.see(look.facts.machine.pci))
    for (const PciFunction& one : *functions) fabric.switches += one.is_nvswitch() ? 1 : 0;
  for (const GpuAnswer& gpu : look.facts.driver.gpus.value_or({})) {
    if (!gpu.fabric_state) continue;
    fabric.finished = fabric.finished || *gpu.fabric_state == "completed";
    if (*gpu.fabric_state != "completed") fabric.unfinished = true;
    if (*gpu.fabric_state != "completed" || fabric.state.empty()) fabric.state = *gpu.fabric_state;
  }
  return fabric;
}

void describe_fabric(Examination& look, Finding& finding, const Fabric& fabric, bool runs) {
  const auto& facts = look.facts;
  if (fabric.switches > 0)
    finding.evidence.push_back(text_n("{} NVSwitch on the bus", "{} NVSwitches on the bus",
                                      fabric.switches, fabric.switches));
  if (facts.machine.processes && !runs)
    finding.evidence.push_back(text("no process nv-fabricmanager"));
  if (facts.nvidia.fabric_manager.is_absent())
    finding.evidence.push_back(text("/usr/bin/nv-fabricmanager is not there"));
  if (!fabric.state.empty())
    finding.evidence.push_back(text("NVML: the fabric's state is “{}”", printable(fabric.state)));
  if (facts.driver.cuda_init) finding.evidence.push_back(cuda_says(*facts.driver.cuda_init));
  if (facts.machine.in_container || (facts.machine.is_virtual && fabric.switches == 0)) {
    finding.fix.push_back({"", text("the fabric is set up on the host: tell its provider, or take "
                                    "another machine")});
    return;
  }
  const std::string version = facts.nvidia.module_version.value_or("");
  const std::string branch = version.empty() ? "<branch>" : std::to_string(branch_of(version));
  if (facts.nvidia.fabric_manager)
    finding.fix.push_back({"sudo systemctl enable --now nvidia-fabricmanager", ""});
  finding.fix.push_back({fmt::format("sudo apt install nvidia-fabricmanager-{0}\n"
                                     "sudo systemctl enable --now nvidia-fabricmanager",
                                     branch),
                         text("in exactly the driver's version; then start the programs again")});
}

void fabric_manager(Examination& look) {
  if (!driver_runs(look)) return;
  const Fabric fabric = fabric_of(look);
  const int* cuda = look.see(look.facts.driver.cuda_init);
  const bool refused = cuda != nullptr && *cuda == kCudaNotReady;
  if (fabric.switches == 0 && !fabric.unfinished && !refused) return;
  if (cuda != nullptr && *cuda == 0) return;
  if (const auto& log = look.facts.machine.kernel_log;
      log && !newest_line(*log, {"devmem_alloc_pagemap"}).empty())
    return;  // DRV14: the same code, another reason
  const auto* processes = look.see(look.facts.machine.processes);
  const auto has = [&](std::string_view name) {
    return processes != nullptr &&
           std::find(processes->begin(), processes->end(), name) != processes->end();
  };
  // The kernel keeps 15 letters of a name.
  const bool runs = has("nv-fabricmanage");
  const std::string trouble = fabric_version_trouble(look.facts.nvidia);
  // A container or a guest does not see the host's processes.
  const bool sees_host = !look.facts.machine.in_container && processes != nullptr;
  const bool absent = fabric.switches > 0 && sees_host && !runs && !fabric.finished;
  if (!refused && !fabric.unfinished && !absent && trouble.empty()) return;
  Finding& finding =
      look.found(!trouble.empty() ? trouble
                 : absent || (refused && !runs && sees_host)
                     ? text("the fabric manager does not run, and without it no GPU of this "
                            "machine starts CUDA")
                     : text("the GPUs' fabric is not ready, so CUDA does not start"));
  describe_fabric(look, finding, fabric, runs);
}

void persistence_off(Examination& look) {
  if (!driver_runs(look) || look.facts.machine.is_laptop) return;
  const auto* gpus = look.see(look.facts.driver.gpus);
  if (gpus == nullptr) return;
  const auto names = look.facts.machine.processes.value_or({});
  if (std::any_of(names.begin(), names.end(),
                  [](const std::string& name) { return name.starts_with("nvidia-persiste"); }))
    return;
  for (const PciFunction* gpu : nvidia_gpus(look)) {
    constexpr std::uint32_t kWithoutDisplay = 0x0302;
    if (gpu->class_code >> 8 != kWithoutDisplay) continue;
    for (const GpuAnswer& answer : *gpus) {
      if (answer.pci_address != gpu->address || !answer.persistence || *answer.persistence)
        continue;
      Finding& finding = look.found(text(
          "persistence mode is off: every first use of GPU {} waits for its start", gpu->address));
      finding.evidence.push_back(text("no process nvidia-persistenced"));
      finding.fix.push_back({"sudo systemctl enable --now nvidia-persistenced", ""});
      return;
    }
  }
}

void two_installs(Examination& look) {
  if (!may_concern_nvidia(look.facts) || look.facts.machine.in_container) return;
  const auto* libraries = look.see(look.facts.nvidia.libraries);
  if (libraries == nullptr) return;
  std::set<std::string> versions;
  for (const DriverLibrary& one : *libraries) versions.insert(one.version);
  if (versions.size() < 2) return;
  Finding& finding = look.found(text("two versions of NVIDIA's driver libraries are installed: {}",
                                     fmt::join(versions, ", ")));
  for (const DriverLibrary& one : *libraries) finding.evidence.push_back(one.path);
  const auto installers = look.facts.nvidia.installers.value_or({});
  const bool by_hand =
      std::find(installers.begin(), installers.end(), "nvidia-installer") != installers.end();
  if (by_hand) {
    finding.evidence.push_back(text("/usr/bin/nvidia-uninstall: installed by NVIDIA's .run file"));
    finding.fix.push_back({"sudo nvidia-uninstall",
                           text("then install the package again, so that one source has it all")});
  }
  finding.fix.push_back(
      {"dpkg -S " + pasted(libraries->front().path) + " " + pasted(libraries->back().path),
       text("what no package owns is left over: remove it, then sudo ldconfig")});
}

/// "6.10.6-200.fc40.x86_64" and "6.11.3-200.fc41.x86_64" are kernels of one line, "6.6.47-1-lts" is
/// of another: what is no number tells.
std::string line_of(std::string_view kernel) {
  std::string letters;
  for (const char c : kernel)
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) letters += c;
  return letters;
}

/// By all numbers of the name, from the left: "6.8.0-45" < "6.8.0-107".
bool is_older_kernel(std::string_view one, std::string_view other) {
  const auto numbers = [](std::string_view name) {
    std::vector<std::int64_t> found;
    for (std::size_t at = 0; at < name.size();) {
      const std::size_t end = std::min(name.find_first_not_of("0123456789", at), name.size());
      if (end > at) found.push_back(to_number(name.substr(at, end - at)).value_or(0));
      at = end + 1;
    }
    return found;
  };
  return numbers(one) < numbers(other);
}

bool has_module(const std::vector<ModuleFile>& files, std::string_view kernel) {
  return std::any_of(files.begin(), files.end(),
                     [&](const ModuleFile& file) { return file.kernel == kernel; });
}

/// An update took the files of the kernel that runs: what is not loaded yet cannot be.
bool kernel_removed(Examination& look, const std::string& running,
                    const std::vector<std::string>& kernels) {
  const bool any = std::any_of(kernels.begin(), kernels.end(), [](const std::string& name) {
    return !name.empty() && name.front() >= '0' && name.front() <= '9';
  });
  if (!any || std::find(kernels.begin(), kernels.end(), running) != kernels.end()) return false;
  Finding& finding =
      look.found(text("the kernel {} that runs was removed by an update: until a reboot no module "
                      "can be loaded",
                      running));
  finding.evidence.push_back(fmt::format("/lib/modules: {}", fmt::join(kernels, " ")));
  if (is_not_loaded(look, "nvidia_uvm"))
    finding.evidence.push_back(text("/proc/modules: nvidia, but no nvidia_uvm"));
  finding.fix.push_back({"sudo reboot", ""});
  return true;
}

/// The next start takes a newer kernel, for which there is no module of NVIDIA's.
void next_kernel_without_module(Examination& look, const std::string& running,
                                const std::vector<std::string>& kernels) {
  const auto* files = look.see(look.facts.nvidia.modules_on_disk);
  const bool* akmods = look.see(look.facts.nvidia.akmods);
  if (files == nullptr || akmods == nullptr || *akmods || !has_module(*files, running) ||
      !is_loaded(look, "nvidia_uvm"))
    return;
  const std::string* newest = nullptr;
  for (const std::string& kernel : kernels)
    if (line_of(kernel) == line_of(running) &&
        is_older_kernel(newest == nullptr ? running : *newest, kernel))
      newest = &kernel;
  if (newest == nullptr || has_module(*files, *newest)) return;
  Finding& finding =
      look.found(text("the newest kernel, {}, has no module of NVIDIA's: after the next reboot the "
                      "GPU is gone",
                      *newest));
  finding.evidence.push_back(text("{} runs, for which there is one", running));
  finding.evidence.push_back(text("{}: no nvidia.ko", "/lib/modules/" + *newest));
  finding.fix.push_back({fmt::format("sudo dkms autoinstall -k {}", pasted(*newest)),
                         text("before the reboot; it needs that kernel's headers: linux-headers-… "
                              "or kernel-devel-…")});
}

void reboot_pending(Examination& look) {
  if (!may_concern_nvidia(look.facts) || look.facts.machine.in_container ||
      look.facts.machine.is_wsl)
    return;
  const auto* packages = look.see(look.facts.nvidia.reboot_wanted_by);
  if (packages != nullptr && packages->find("nvidia") != std::string::npos) {
    Finding& finding = look.found(text("NVIDIA's driver was updated and waits for a reboot"));
    for (const std::string_view line : split(*packages, '\n'))
      if (line.find("nvidia") != std::string_view::npos)
        finding.evidence.push_back("/run/reboot-required.pkgs: " + printable(line));
    finding.fix.push_back(
        {"sudo reboot", text("at a time that suits: what runs now goes on until then")});
    return;
  }
  const std::string* running = look.see(look.facts.machine.kernel);
  const auto* kernels = look.see(look.facts.nvidia.kernels_on_disk);
  if (running == nullptr || kernels == nullptr || !is_loaded(look, "nvidia")) return;
  if (!kernel_removed(look, *running, *kernels))
    next_kernel_without_module(look, *running, *kernels);
}

void mps(Examination& look) {
  if (!may_concern_nvidia(look.facts)) return;
  const auto named = look.facts.process.variable("CUDA_MPS_PIPE_DIRECTORY");
  const int* cuda = look.see(look.facts.driver.cuda_init);
  // 805 no connection, 806 and 807 a server that fails or is not ready, 808 and 809 too many users.
  if (cuda == nullptr || *cuda < kCudaMps || *cuda > kCudaMpsFull + 1) return;
  Finding& finding = look.found(
      *cuda < kCudaMpsFull ? text("CUDA cannot reach the MPS daemon that this GPU is served by")
                           : text("the MPS daemon of this GPU serves as many programs as it can"));
  finding.evidence.push_back(cuda_says(*cuda));
  finding.evidence.push_back(named ? "CUDA_MPS_PIPE_DIRECTORY=" + printable(*named)
                                   : text("CUDA_MPS_PIPE_DIRECTORY is not set"));
  const auto& control = look.facts.nvidia.mps_control;
  const auto& identity = look.facts.process.identity;
  if (control && identity && control->uid != identity->uid)
    finding.evidence.push_back(text("the daemon is that of user {}, this process is user {}",
                                    control->uid, identity->uid));
  if (control.is_absent())
    finding.evidence.push_back(
        text("there is no {}", printable(named.value_or("/tmp/nvidia-mps")) + "/control"));
  if (look.facts.machine.in_container)
    finding.fix.push_back(
        {"docker run --ipc=host -v /tmp/nvidia-mps:/tmp/nvidia-mps "
         "-e CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps …",
         text("shares the daemon's pipe with the container")});
  finding.fix.push_back({"nvidia-cuda-mps-control -d",
                         text("starts the daemon, as the user whose programs it shall serve")});
  finding.fix.push_back({"echo quit | sudo nvidia-cuda-mps-control",
                         text("ends it: programs then use the GPU without MPS")});
}

constexpr auto kRules = std::to_array<Rule>({
    {"DRV11", Layer::kDriver, Severity::kFatal, true,
     msgid("nvidia_uvm or its device node missing"), "DRV13 FW*", uvm_missing},
    {"DRV12", Layer::kDriver, Severity::kFatal, true, msgid("no permission for the device nodes"),
     "DRV13 DRV15 LIB01 FW*", node_permission},
    {"DRV13", Layer::kDriver, Severity::kFatal, true, msgid("nvidia_uvm stale after a suspend"),
     "FW* RT*", uvm_after_suspend},
    {"DRV14", Layer::kDriver, Severity::kFatal, true, msgid("HMM and KASLR in each other's way"),
     "DRV13 DRV15 FW*", hmm_kaslr},
    {"DRV15", Layer::kDriver, Severity::kFatal, true,
     msgid("NVSwitches whose fabric manager does not run"), "DRV13 FW* RT*", fabric_manager},
    {"DRV16", Layer::kDriver, Severity::kInfo, false, msgid("persistence mode off on a server"), "",
     persistence_off},
    {"DRV17", Layer::kDriver, Severity::kWarning, false, msgid("two installs of the driver"),
     "DRV05", two_installs},
    {"DRV18", Layer::kDriver, Severity::kWarning, true,
     msgid("an update of driver or kernel that waits for a reboot"), "DRV11", reboot_pending},
    {"DRV22", Layer::kDriver, Severity::kError, true, msgid("an MPS daemon out of reach"), "FW*",
     mps},
});

}  // namespace

std::span<const Rule> driver_state_rules() {
  return kRules;
}

}  // namespace berth::doctor
