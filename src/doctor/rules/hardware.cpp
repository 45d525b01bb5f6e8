// Rules HW about what the PCI bus shows, independent of drivers.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

constexpr std::uint32_t kNvidia = 0x10de, kAmd = 0x1002, kIntel = 0x8086;

bool is_known_gpu(const PciFunction& one) {
  return one.is_gpu() && (one.vendor == kNvidia || one.vendor == kAmd || one.vendor == kIntel);
}

/// A reason why this machine should have an NVIDIA GPU, and the severity if it has none.
struct Expectation {
  Severity severity = Severity::kInfo;
  std::string because;
};

Expectation expectation(Examination& look) {
  if (is_loaded(look, "nvidia"))
    return {Severity::kFatal,
            text("NVIDIA's module is loaded, so the machine should have an NVIDIA GPU")};
  const auto& kernel = look.facts.machine.kernel;
  if (look.facts.machine.in_container || !kernel) return {};
  // On a laptop, an external GPU may be unplugged, or the firmware may have switched the GPU off to
  // save power.
  if (look.facts.machine.is_laptop) return {};
  for (const ModuleFile& file : look.facts.nvidia.modules_on_disk.value_or({}))
    if (file.kernel == *kernel)
      return {Severity::kWarning, text("NVIDIA's driver is installed: {}", file.path)};
  return {};
}

bool has_nvidia(const std::vector<PciFunction>& functions) {
  return std::any_of(functions.begin(), functions.end(),
                     [](const PciFunction& one) { return one.is_nvidia_gpu(); });
}

/// Reports a laptop whose firmware switched the GPU off.
bool switched_off(Examination& look, const std::vector<PciFunction>& functions) {
  const auto* file = look.see(look.facts.machine.switched_off);
  if (file == nullptr || has_nvidia(functions)) return false;
  Finding& finding = look.found(
      text("the firmware has switched the GPU off, so the system does not see it: {} is 1", *file));
  finding.severity = Severity::kWarning;
  finding.evidence = {*file + ": 1", "https://asus-linux.org/manual/supergfxctl-manual/"};
  finding.fix.push_back(
      {fmt::format("echo 0 | sudo tee {} && sudo reboot", pasted(*file)),
       text("or run supergfxctl -m Hybrid: supergfxctl is usually what disabled the GPU")});
  return true;
}

/// Reports a laptop that was switched to its integrated GPU. A udev rule then removes the other GPU
/// from the bus.
bool taken_off_the_bus(Examination& look, const std::vector<PciFunction>& functions) {
  const auto* rule = look.see(look.facts.nvidia.remover);
  if (rule == nullptr || has_nvidia(functions)) return false;
  Finding& finding = look.found(
      text("the NVIDIA GPU is removed from the bus at every boot, by the udev rule {}", *rule));
  finding.evidence.push_back(text("{}: ATTR{{remove}}=\"1\" for NVIDIA's GPUs", *rule));
  for (const ModprobeLine& line : look.facts.nvidia.modprobe.value_or({}))
    if (line.text.starts_with("blacklist nvidia") || line.text.starts_with("alias nvidia"))
      finding.evidence.push_back(line.file + ": " + printable(line.text));
  finding.fix.push_back({"sudo envycontrol -s hybrid && sudo reboot",
                         text("or turn the GPU on with the tool that turned it off: prime-select, "
                              "supergfxctl or system76-power")});
  finding.fix.push_back({fmt::format("sudo rm {} && sudo reboot", pasted(*rule)), ""});
  return true;
}

/// Reports an enclosure for an external GPU that was not authorized. The kernel does not show the
/// devices in it.
bool locked_out(Examination& look, const std::vector<PciFunction>& functions) {
  const auto* boxes = look.see(look.facts.machine.locked_out);
  const bool has_one = has_nvidia(functions);
  // Docks and displays also appear in this list. A GPU is expected only if its driver is installed.
  const bool wanted = !look.facts.nvidia.modules_on_disk.value_or({}).empty() ||
                      !look.facts.nvidia.libraries.value_or({}).empty();
  if (boxes == nullptr || boxes->empty() || has_one || !wanted) return false;
  Finding& finding =
      look.found(text("{} is plugged in but not authorized, so the system does not see a GPU in it",
                      boxes->front()));
  finding.evidence.push_back(text("/sys/bus/thunderbolt/devices: authorized is 0"));
  finding.fix.push_back({"boltctl list && sudo boltctl enroll --policy auto UUID",
                         text("replace UUID with the uuid of the device in the list; a possible "
                              "cause is Thunderbolt security “user” in the firmware setup")});
  return true;
}

void no_gpu_on_bus(Examination& look) {
  // On WSL and Jetson, the GPU is not on the PCI bus: it is a device of the host, or part of the
  // chip.
  if (look.facts.machine.is_wsl || look.facts.machine.is_jetson) return;
  const auto* functions = look.see_whole(look.facts.machine.pci);
  if (functions == nullptr) return;
  // The driver lists a GPU, so it exists. Virtual machines may hide it from the bus.
  if (look.facts.driver.gpus && !look.facts.driver.gpus->empty()) return;
  if (switched_off(look, *functions) || taken_off_the_bus(look, *functions) ||
      locked_out(look, *functions))
    return;
  // Most machines have no NVIDIA GPU. Its absence is only a problem if there is a reason to expect
  // one.
  const Expectation expected = expectation(look);
  const bool any = std::any_of(functions->begin(), functions->end(), [&](const PciFunction& one) {
    return expected.severity == Severity::kInfo ? is_known_gpu(one) : one.is_nvidia_gpu();
  });
  if (any) return;
  Finding& finding = look.found(expected.severity == Severity::kInfo
                                    ? text("there is no GPU on the PCI bus")
                                    : text("there is no NVIDIA GPU on the PCI bus"));
  finding.severity = expected.severity;
  if (!expected.because.empty()) finding.evidence.push_back(expected.because);
  finding.evidence.push_back(text_n("{} PCI function, none of them a GPU of NVIDIA, AMD or Intel",
                                    "{} PCI functions, none of them a GPU of NVIDIA, AMD or Intel",
                                    static_cast<long long>(functions->size()), functions->size()));
  if (look.facts.machine.is_virtual) {
    finding.evidence.push_back(
        text("a virtual machine: {}", printable(look.facts.machine.machine_kind.value_or(""))));
    finding.fix.push_back(
        {"", text("a virtual machine only has the GPUs that its host assigns to it: assign one on "
                  "the host, or choose a machine type with a GPU")});
    return;
  }
  finding.fix.push_back(
      {"lspci -nn", text("if there should be a GPU, check its slot, power and BIOS settings; in a "
                         "virtual machine, check the passthrough")});
}

/// Whether DRV01 to DRV04 report this GPU: NVIDIA's module is not loaded, so no driver can be bound
/// to it.
bool waits_for_module(Examination& look, const PciFunction& one) {
  return one.vendor == kNvidia && !look.facts.machine.has_module("nvidia").value_or(true);
}

void gpu_unbound(Examination& look) {
  const auto* functions = look.see(look.facts.machine.pci);
  if (functions == nullptr) return;
  for (const PciFunction& one : *functions) {
    if (!is_known_gpu(one) || waits_for_module(look, one) || !look.missing(one.driver)) continue;
    Finding& finding = look.found(text("no driver is bound to the GPU at {}", one.address));
    if (one.vendor == kIntel && !is_intel_card(one))
      finding.severity = Severity::kInfo;  // many servers have it only for the console
    finding.evidence.push_back(
        fmt::format("/sys/bus/pci/devices/{}/driver: {}", one.address, tr("missing")));
    if (const auto& log = look.facts.machine.kernel_log)
      if (const auto line = newest_line(*log, {"probe", one.address, "failed"}); !line.empty())
        finding.evidence.push_back(quoted_line(line));
    const std::string_view module = one.vendor == kNvidia ? "nvidia"
                                    : one.vendor == kAmd  ? "amdgpu"
                                                          : "i915";
    if (const Ban ban = ban_of(look, module); !ban.evidence.empty()) {
      finding.evidence.push_back(ban.evidence);
      finding.fix.push_back(without_ban(look, ban, module));
      continue;
    }
    finding.fix.push_back({one.vendor == kNvidia ? "sudo modprobe nvidia"
                           : one.vendor == kAmd  ? "sudo modprobe amdgpu"
                                                 : "sudo modprobe xe || sudo modprobe i915",
                           text("if this fails, read the reason with: sudo dmesg | tail")});
  }
}

constexpr std::string_view kVfioIds = "vfio-pci.ids=";

/// The setting that binds this GPU to vfio-pci at every boot, usually for a virtual machine.
struct Binding {
  /// `evidence` is the text of the setting. `file` is the modprobe file that contains it, or "" if
  /// it is on the kernel's command line.
  std::string evidence, file;
  std::string word;  // the parameter on the kernel's command line; "" if the setting is in a file
};
Binding binding_of(Examination& look, const PciFunction& gpu) {
  const std::string id = fmt::format("{:04x}:{:04x}", gpu.vendor, gpu.device);
  for (const ModprobeLine& line : look.facts.nvidia.modprobe.value_or({}))
    if (line.text.starts_with("options vfio") && contains(line.text, id))
      return {line.file + ": " + printable(line.text), line.file, ""};
  const std::string given = look.facts.platform.command_line.value_or("");
  for (const std::string_view word : split(given, ' '))
    if (word.starts_with(kVfioIds) && contains(word, id))
      return {"/proc/cmdline: " + printable(word), "", std::string(word)};
  return {};
}

Fix off_command_line(Examination& look, const std::string& word, const std::string& id) {
  return without_arguments(
      look, {word}, [&](std::string_view one) { return one.starts_with(id); },
      text("if no virtual machine needs the GPU any more, remove this parameter, which assigns the "
           "GPU to vfio-pci at every boot"));
}

/// Removes the device with this id from a modprobe line. If the line names no other device, removes
/// the line.
Fix off_modprobe(Examination& look, const std::string& file, const std::string& id) {
  std::string says = text(
      "if no virtual machine needs the GPU any more, remove this line, which assigns the GPU to "
      "vfio-pci at every boot");
  for (const ModprobeLine& line : look.facts.nvidia.modprobe.value_or({}))
    for (const char* driver : {"nvidia", "nouveau", "amdgpu", "radeon", "i915", "xe"})
      if (line.text.starts_with(std::string("softdep ") + driver + " ") &&
          contains(line.text, "vfio-pci"))
        says += "; " + text("also remove this line: {}: {}", line.file, printable(line.text));
  return on_system_between(
      look, "initramfs",
      fmt::format("sudo sed -i '/^options vfio/{{s/,{0}//;s/{0},//;s/ ids={0}//}};"
                  "/^options vfio[-_]pci *$/d' {1}",
                  id, pasted(file)),
      "", says);
}

void take_back(Examination& look, Finding& finding, const PciFunction& gpu) {
  finding.fix.push_back(
      {"", text("the GPU is assigned to a virtual machine: detach it there first")});
  const Binding binding = binding_of(look, gpu);
  if (binding.evidence.empty()) return;
  finding.evidence.push_back(binding.evidence);
  const std::string id = fmt::format("{:04x}:{:04x}", gpu.vendor, gpu.device);
  finding.fix.push_back(binding.file.empty() ? off_command_line(look, binding.word, id)
                                             : off_modprobe(look, binding.file, id));
}

/// Reports an AMD or Intel card that is assigned to a virtual machine. It is only information if
/// the machine keeps another GPU of this vendor.
void given_away(Examination& look, const std::vector<PciFunction>& functions) {
  for (const std::uint32_t vendor : {kVendorAmd, kVendorIntel}) {
    const PciFunction* given = nullptr;
    bool kept = false;
    for (const PciFunction& one : functions) {
      if (one.vendor != vendor || !one.is_gpu()) continue;
      if (one.driver.value_or("") == "vfio-pci")
        given = &one;
      else
        kept = true;
    }
    if (given == nullptr) continue;
    Finding& finding = look.found(
        text("vfio-pci is bound to the GPU at {}, so no program on this machine can use the GPU",
             given->address));
    const auto& torch = look.facts.python.torch;
    const bool wanted = vendor == kVendorAmd
                            ? look.facts.rocm.folder.has_value() || (torch && torch->hip)
                            : torch && torch->xpu;
    if (kept || !wanted) finding.severity = Severity::kInfo;
    finding.evidence.push_back(
        fmt::format("/sys/bus/pci/devices/{}/driver → vfio-pci", given->address));
    take_back(look, finding, *given);
  }
}

void gpu_bound_elsewhere(Examination& look) {
  const auto* functions = look.see(look.facts.machine.pci);
  if (functions == nullptr) return;
  given_away(look, *functions);
  constexpr auto kOthers =
      std::to_array<std::string_view>({"nouveau", "vfio-pci", "nvidiafb", "NovaCore"});
  const bool another = !look.facts.machine.pci.is_whole() ||
                       std::any_of(functions->begin(), functions->end(), [](const auto& one) {
                         return one.is_nvidia_gpu() &&
                                (one.driver.is_unreadable() || one.driver.value_or("") == "nvidia");
                       });
  for (const PciFunction& one : *functions) {
    if (!one.is_nvidia_gpu()) continue;
    const std::string* driver = look.see(one.driver);
    if (driver == nullptr || std::find(kOthers.begin(), kOthers.end(), *driver) == kOthers.end())
      continue;
    Finding& finding = look.found(text(
        "{} is bound to the GPU at {}, so NVIDIA's driver cannot use it", *driver, one.address));
    // A machine with two GPUs often keeps one and assigns the other to a virtual machine.
    if (another && *driver == "vfio-pci") finding.severity = Severity::kInfo;
    finding.evidence.push_back(
        fmt::format("/sys/bus/pci/devices/{}/driver → {}", one.address, *driver));
    if (*driver == "vfio-pci") {
      take_back(look, finding, one);
    } else {
      finding.fix.push_back(on_system_between(
          look, "initramfs",
          fmt::format("echo 'blacklist {0}' | sudo tee /etc/modprobe.d/blacklist-{0}.conf",
                      *driver == "NovaCore" ? "nova_core" : *driver),
          "", ""));
    }
  }
}

void report_bar(Examination& look, const std::string& where, const std::string& evidence) {
  Finding& finding = look.found(text(
      "the firmware has assigned no address space (BAR) to the memory of the GPU at {}", where));
  finding.evidence.push_back(evidence);
  if (look.facts.machine.is_virtual) {
    finding.fix.push_back(
        {"", text("enlarge the virtual machine's 64-bit MMIO window: in VMware, set "
                  "pciPassthru.use64bitMMIO=TRUE and pciPassthru.64bitMMIOSizeGB; in QEMU, use "
                  "-fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=262144")});
    return;
  }
  finding.fix.push_back({"", text("in the firmware setup turn on Above 4G Decoding (and Resizable "
                                  "BAR), and turn off CSM")});
  finding.fix.push_back(on_system(
      look, "kernel_argument", text("makes the kernel assign the address space"), "pci=realloc"));
}

/// Reports an AMD or Intel GPU without a driver, for which the kernel found no address space (log
/// lines about a BAR, or amdgpu's error -12).
bool others_without_room(Examination& look) {
  const auto& log = look.facts.machine.kernel_log;
  if (!log) return false;
  for (const std::uint32_t vendor : {kVendorAmd, kVendorIntel})
    for (const PciFunction& gpu : gpus_on_bus(look, vendor)) {
      if (!gpu.driver.is_absent() || gpu.is_asleep()) continue;
      std::string line = newest_line(*log, {gpu.address + ": BAR ", "failed to assign"});
      if (line.empty()) line = newest_line(*log, {gpu.address + ": BAR ", "no space"});
      if (line.empty()) line = newest_line(*log, {"probe of " + gpu.address, "error -12"});
      if (line.empty()) continue;
      report_bar(look, gpu.address, quoted_line(line));
      return true;
    }
  return false;
}

/// The log line that says that the kernel found no address space for BAR1; "" if there is none, or
/// if a driver is bound to the GPU.
std::string refused_bar(const PciFunction& gpu, const std::vector<std::string>& log) {
  if (!gpu.driver.is_absent()) return "";
  for (const std::string_view words : {"failed to assign", "no space"})
    if (auto line = newest_line(log, {gpu.address + ": BAR 1", words}); !line.empty()) return line;
  return "";
}

/// Reports an NVIDIA GPU whose BAR1 has no address, according to the log or to the file `resource`,
/// where BAR1 has index 1.
void bar_unassigned(Examination& look) {
  if (others_without_room(look)) return;
  if (!may_concern_nvidia(look.facts)) return;
  constexpr std::uint64_t kFourGib = 1ULL << 32;
  for (const PciFunction* gpu : nvidia_gpus(look)) {
    const auto& all_lines = look.facts.machine.kernel_log;
    if (const auto line = refused_bar(*gpu, all_lines.value_or({})); !line.empty())
      return report_bar(look, gpu->address, quoted_line(line));
    const auto* starts = look.see(gpu->bar_starts);
    if (starts == nullptr || starts->size() < 4 || gpu->is_asleep()) continue;
    if ((*starts)[1] == 0) {
      report_bar(look, gpu->address,
                 fmt::format("/sys/bus/pci/devices/{}/resource: BAR1 0x0", gpu->address));
      return;
    }
    // BAR1 below 4 GiB may also be the cause, if the driver could not initialize the GPU and the
    // log shows no other cause.
    const auto& log = look.facts.machine.kernel_log;
    if ((*starts)[1] >= kFourGib || !log) continue;
    const std::string line = newest_line(*log, {"NVRM", "RmInitAdapter failed"});
    const bool named = !newest_line(*log, {"NVRM", "WPR2"}).empty() ||
                       !newest_line(*log, {"GSP firmware"}).empty() ||
                       !newest_line(*log, {"not supported by open"}).empty() ||
                       !newest_line(*log, {"requires use of"}).empty();
    if (line.empty() || named || look.facts.machine.is_virtual) continue;
    report_bar(look, gpu->address, quoted_line(line));
    look.findings().back().evidence.push_back(
        text("/sys/bus/pci/devices/{}/resource: BAR1 at {:#x}, below 4 GiB", gpu->address,
             (*starts)[1]));
    return;
  }
  const auto* log = look.see(look.facts.machine.kernel_log);
  if (log == nullptr) return;
  std::string line = newest_line(*log, {"NVRM", "is 0M @ 0x0"});
  if (line.empty()) line = newest_line(*log, {"PCI I/O region assigned to your NVIDIA device"});
  if (line.empty()) return;
  const auto at = line.find("PCI:");
  const std::string where =
      at == std::string::npos ? "?" : printable(line.substr(at + 4, line.find(')', at) - at - 4));
  report_bar(look, where, quoted_line(line));
}

/// The log line that says that a GPU was lost while the driver initialized it. This message has no
/// Xid: "The NVIDIA GPU 0000:b3:00.0" is followed by "fallen off the bus and is not responding to
/// commands".
std::string lost_at_start(const std::vector<std::string>& log, const std::string& address) {
  constexpr std::size_t kLinesOfOneMessage = 3;
  for (std::size_t i = log.size(); i-- > 0;) {
    if (log[i].find("fallen off the bus and is not responding") == std::string::npos) continue;
    for (std::size_t back = 0; back < kLinesOfOneMessage && back <= i; ++back)
      if (log[i - back].find(address) != std::string::npos) return log[i];
  }
  return "";
}

/// Whether NVML reports this GPU as lost.
bool is_said_lost(Examination& look, const PciFunction& gpu) {
  constexpr int kLost = 15;
  for (const GpuAnswer& answer : look.facts.driver.gpus.value_or({}))
    if (answer.pci_address == gpu.address && answer.error.value_or(0) == kLost) return true;
  return false;
}

void gpu_lost(Examination& look) {
  for (const PciFunction* gpu : nvidia_gpus(look)) {
    if (gpu->is_asleep()) continue;
    const bool* gone = look.see(gpu->gone);
    const bool said = is_said_lost(look, *gpu);
    const auto& log = look.facts.machine.kernel_log;
    const std::string line = log ? lost_at_start(*log, gpu->address) : "";
    // If a driver is bound to the GPU now, the GPU has recovered since this log line.
    const bool never_came = !line.empty() && gpu->driver.is_absent();
    if (!said && !never_came && (gone == nullptr || !*gone)) continue;
    Finding& finding = look.found(text("the GPU at {} has fallen off the bus", gpu->address));
    if (never_came) finding.evidence.push_back(quoted_line(line));
    for (const std::string& one : log.value_or({}))
      if (one.find(gpu->address.substr(0, gpu->address.rfind('.')) + "): 79,") !=
          std::string::npos) {
        finding.evidence.push_back(quoted_line(one));
        break;
      }
    if (said) finding.evidence.push_back(text("NVML 15: the GPU is lost"));
    if (gone != nullptr && *gone)
      finding.evidence.push_back(
          fmt::format("/sys/bus/pci/devices/{}/config: ff ff ff ff", gpu->address));
    finding.fix.push_back({"", text("switch the machine off, disconnect the power for ten seconds, "
                                    "start again: a reboot does not cut the GPU's power")});
    finding.fix.push_back({"", text("if it happens again, check the power supply, the cables, the "
                                    "card's seating and its temperature")});
  }
}

void runtime_pm(Examination& look) {
  for (const PciFunction* gpu : nvidia_gpus(look)) {
    static_cast<void>(look.see(gpu->runtime_status));
    if (!gpu->is_asleep()) continue;
    Finding& finding =
        look.found(text("the GPU at {} is asleep until a program uses it", gpu->address));
    if (gpu->runtime_status)
      finding.evidence.push_back(fmt::format("/sys/bus/pci/devices/{}/power/runtime_status: {}",
                                             gpu->address, printable(*gpu->runtime_status)));
    if (gpu->power_state)
      finding.evidence.push_back(fmt::format("/sys/bus/pci/devices/{}/power_state: {}",
                                             gpu->address, printable(*gpu->power_state)));
  }
}

void slower_than_it_was(Examination& look) {
  const auto* devices = look.see(look.facts.machine.slow_devices);
  if (devices == nullptr) return;
  for (const SlowDevice& one : *devices) {
    const std::string name = printable(one.name);
    Finding& finding = look.found(text("{0}: {1}", name, one.cases.front()));
    if (one.id != one.name) finding.evidence.push_back(printable(one.id));
    for (std::size_t i = 1; i < one.cases.size(); ++i) finding.evidence.push_back(one.cases[i]);
    finding.evidence.push_back(one.file);
    finding.fix.push_back({"berth bench --keep && berth health",
                           text("measures again; run this while no program uses the device")});
    finding.fix.push_back(
        {"", text("if the device stays slow, compare its clocks, power limit, temperature and PCIe "
                  "link with those of other devices under load")});
    finding.fix.push_back(
        {"rm " + pasted(one.file.substr(0, one.file.rfind('/')) + "/baseline.json"),
         text("do this only after a change of the device or its driver: the next results become "
              "the new baseline")});
  }
}

constexpr auto kHardwareRules = std::to_array<Rule>({
    {"HW01", Layer::kHardware, Severity::kFatal, true, msgid("no GPU on the PCI bus"),
     "DRV* CTR* ENV* LIB* FW*", no_gpu_on_bus},
    {"HW02", Layer::kHardware, Severity::kFatal, true, msgid("a GPU without a driver"),
     "DRV11 DRV12 DRV13 DRV15 LIB* FW*", gpu_unbound},
    {"HW03", Layer::kHardware, Severity::kFatal, true, msgid("another driver is bound to the GPU"),
     "DRV01 DRV11 DRV12 DRV13 DRV15 LIB* FW*", gpu_bound_elsewhere},
    {"HW04", Layer::kHardware, Severity::kFatal, true,
     msgid("a GPU without address space for its memory"),
     "HW02 DRV01 DRV09 DRV11 DRV13 AMD07 XPU05 LIB* FW*", bar_unassigned},
    {"HW08", Layer::kHardware, Severity::kFatal, true, msgid("a GPU that fell off the bus"),
     "HW02 DRV09 DRV13 DRV15 DRV23 DRV30 FW* RT*", gpu_lost},
    {"HW10", Layer::kHardware, Severity::kInfo, false, msgid("a GPU in a sleep state"), "",
     runtime_pm},
    {"HW14", Layer::kHardware, Severity::kWarning, false,
     msgid("a device that is slower than before, or than others of the same model"), "",
     slower_than_it_was},
});

}  // namespace

std::span<const Rule> hardware_rules() {
  return kHardwareRules;
}

}  // namespace berth::doctor
