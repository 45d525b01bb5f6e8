// Rules DRV06 to DRV08: whether NVIDIA's module supports the installed GPUs, by its kind (open or
// proprietary) and its branch.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"

namespace berth::doctor {
namespace {

std::string describe(const PciFunction& gpu) {
  return fmt::format("{} (10de:{:04x})", gpu.address, gpu.device);
}

/// Whether the GPU is Blackwell or newer, which the proprietary module does not support. NVIDIA's
/// device ids increase with each generation.
bool is_from_blackwell(const PciFunction& gpu) {
  constexpr std::uint32_t kFirst = 0x2900;
  return gpu.device >= kFirst;
}

/// Reports a machine that has a GPU older than Turing and a Blackwell or newer GPU. The open module
/// does not support the old GPU, and the proprietary module does not support the new one.
bool told_of_both_kinds(Examination& look, Finding& finding) {
  const PciFunction *old = nullptr, *blackwell = nullptr;
  for (const auto* gpu : nvidia_gpus(look)) {
    // the GPU is assigned to a virtual machine
    if (gpu->driver.value_or("") == "vfio-pci") continue;
    if (is_before_turing(*gpu)) old = gpu;
    if (is_from_blackwell(*gpu)) blackwell = gpu;
  }
  if (old == nullptr || blackwell == nullptr) return false;
  finding.evidence.push_back(
      text("no NVIDIA module supports both {} and {}", describe(*old), describe(*blackwell)));
  finding.fix.push_back(
      {"", text("move one of these two GPUs to a virtual machine or to another machine. Install "
                "the module that the remaining GPU needs: open for {}, proprietary for {}",
                blackwell->address, old->address)});
  return true;
}

void open_module_old_gpu(Examination& look) {
  std::vector<const PciFunction*> old;
  for (const auto* gpu : nvidia_gpus(look))
    if (is_before_turing(*gpu)) old.push_back(gpu);
  if (old.empty()) return;
  const bool* open = look.see(look.facts.nvidia.open_module);
  const std::string line = newest_line(look, {"not supported by open"});
  if ((open == nullptr || !*open) && line.empty()) return;
  Finding& finding = look.found(
      text("NVIDIA's open kernel module is installed, and the GPU at {} is too old for it",
           old.front()->address));
  for (const auto* gpu : old)
    finding.evidence.push_back(text(
        "{}: older than Turing, so it has no GSP (system processor), which the open module needs",
        describe(*gpu)));
  if (open != nullptr && *open)
    finding.evidence.emplace_back("/proc/driver/nvidia/version: Open Kernel Module");
  if (!line.empty()) finding.evidence.push_back(quoted_line(line));
  if (told_of_both_kinds(look, finding)) return;
  constexpr int kLastForOld = 580;
  if (look.facts.nvidia.module_variant.value_or("") == "kernel-open" &&
      branch_of(look.facts.nvidia.module_version.value_or("")) <= kLastForOld) {
    finding.fix.push_back(with_variant(look, "kernel"));
    return;
  }
  finding.fix.push_back(on_system(look, "driver_branch",
                                  text("install the proprietary module, not the open one; 580 is "
                                       "the last branch for Maxwell, Pascal and Volta"),
                                  "580"));
}

/// The first driver branch that supports this GPU. The table may be incomplete, so a rule may only
/// warn, unless the driver itself rejects the GPU.
int first_branch_for(const Examination& look, const PciFunction& gpu) {
  int branch = 0;
  for (const auto& one : look.knowledge.compatibility().first_branches)
    if (static_cast<int>(gpu.device) >= one.from) branch = one.branch;
  return branch;
}

/// A Blackwell GPU that does not answer although the proprietary module is new enough for it;
/// nullptr if there is none. The log does not always show the reason.
const PciFunction* needs_open_module(Examination& look) {
  const bool* open = look.see(look.facts.nvidia.open_module);
  if (open == nullptr || *open) return nullptr;
  const std::string version = look.facts.nvidia.module_version.value_or("");
  const PciFunction* silent = nullptr;
  for (const auto* gpu : nvidia_gpus(look)) {
    if (!is_from_blackwell(*gpu) || branch_of(version) < first_branch_for(look, *gpu)) continue;
    const auto answers = look.facts.driver.gpus.value_or({});
    if (std::any_of(answers.begin(), answers.end(), [&](const GpuAnswer& one) {
          return one.pci_address == gpu->address && one.error.is_absent();
        }))
      return nullptr;
    silent = gpu;
  }
  return silent;
}

void proprietary_module_new_gpu(Examination& look) {
  if (!may_concern_nvidia(look.facts)) return;
  std::string line = newest_line(look, {"requires use of the NVIDIA open"});
  if (line.empty()) line = newest_line(look, {"NVRM", "open kernel modules", "require"});
  const PciFunction* gpu = line.empty() ? needs_open_module(look) : nullptr;
  if (line.empty() && gpu == nullptr) return;
  Finding& finding = look.found(text("this GPU needs NVIDIA's open kernel module"));
  if (!line.empty()) finding.evidence.push_back(quoted_line(line));
  if (gpu != nullptr) {
    finding.evidence.push_back(
        text("{}: Blackwell or newer, which only the open module supports", describe(*gpu)));
    finding.evidence.push_back(text("/proc/driver/nvidia/version: the proprietary module"));
  }
  if (told_of_both_kinds(look, finding)) return;
  finding.fix.push_back(look.facts.nvidia.module_variant.value_or("") == "kernel"
                            ? with_variant(look, "kernel-open")
                            : on_system(look, "driver_open", "", "580"));
}

/// Reports a GPU that is too new for the driver, which ignores such GPUs.
bool not_served_yet(Examination& look) {
  const std::string line = newest_line(look, {"NVRM", "is not supported by the"});
  const std::string version =
      look.facts.nvidia.module_version.value_or(look.facts.nvidia.library_version.value_or(""));
  for (const auto* gpu : nvidia_gpus(look)) {
    if (!gpu->driver.is_absent() || is_before_turing(*gpu)) continue;
    const int first = first_branch_for(look, *gpu);
    if (line.empty() && (version.empty() || branch_of(version) >= first)) continue;
    if (!version.empty() && branch_of(version) >= first) continue;
    Finding& finding = look.found(
        text("driver {} is too old for the GPU at {}", printable(version), gpu->address));
    if (line.empty())
      finding.severity = Severity::kWarning;
    else
      finding.evidence.push_back(quoted_line(line));
    finding.evidence.push_back(
        text("{}: driver {} is the first branch that supports this GPU", describe(*gpu), first));
    finding.fix.push_back(
        on_system(look, "driver_open",
                  text("or any newer branch; for a container, install the driver on the host"),
                  std::to_string(std::max(first, 580))));
    return true;
  }
  return false;
}

/// The last driver branch that supports this GPU; 0 if newer branches still support it.
int last_branch_for(const Examination& look, const PciFunction& gpu) {
  for (const auto& one : look.knowledge.compatibility().last_branches)
    if (static_cast<int>(gpu.device) >= one.from && static_cast<int>(gpu.device) <= one.to)
      return one.branch;
  return is_before_turing(gpu) ? 580 : 0;
}

/// The version of the loaded module. If no module is loaded: the version of the library that the
/// loader would choose. If that is unknown: the version of the oldest library.
std::string installed_version(const NvidiaFacts& nvidia) {
  if (nvidia.module_version) return *nvidia.module_version;
  if (nvidia.library_version) return *nvidia.library_version;
  const auto libraries = nvidia.libraries.value_or({});
  const auto oldest = std::min_element(libraries.begin(), libraries.end(),
                                       [](const DriverLibrary& a, const DriverLibrary& b) {
                                         return is_older(a.version, b.version);
                                       });
  return oldest == libraries.end() ? "" : oldest->version;
}

/// Whether the GPU is not in use: no driver is bound to it, or NVIDIA's driver is bound but does
/// not list it.
bool is_left_alone(Examination& look, const PciFunction& gpu) {
  constexpr int kNotLoaded = 9;
  if (gpu.driver.is_absent()) return true;
  const auto& driver = look.facts.driver;
  if (gpu.driver.value_or("") != "nvidia" || !driver.nvml_init) return false;
  if (*driver.nvml_init == kNotLoaded) return true;
  return *driver.nvml_init == 0 && driver.gpus &&
         std::none_of(driver.gpus->begin(), driver.gpus->end(),
                      [&](const GpuAnswer& one) { return one.pci_address == gpu.address; });
}

/// Suggests an older branch. If a GPU that works now needs a newer branch, says that no branch
/// supports all GPUs.
void advise_branch(Examination& look, Finding& finding,
                   const std::vector<const PciFunction*>& working, int branch) {
  for (const PciFunction* gpu : working)
    if (const int first = first_branch_for(look, *gpu); first > branch) {
      finding.fix.push_back({"", text("no driver branch supports both this GPU and {}, which needs "
                                      "branch {} or newer: use this GPU in another machine",
                                      describe(*gpu), first)});
      return;
    }
  constexpr int kOldestPackaged = 470;
  finding.fix.push_back(on_system(look, "driver_branch",
                                  text("replaces the driver for all GPUs of this machine"),
                                  std::to_string(branch)));
  if (branch < kOldestPackaged)
    finding.fix.push_back(
        {"", text("NVIDIA no longer maintains branch {}: newer distributions do not package it, "
                  "and its module does not compile for their kernels",
                  branch)});
}

void dropped_by_branch(Examination& look) {
  if (!may_concern_nvidia(look.facts) || not_served_yet(look)) return;
  const std::string version = installed_version(look.facts.nvidia);
  const auto* log = look.see(look.facts.machine.kernel_log);
  const std::string line = log == nullptr ? "" : newest_line(*log, {"Legacy drivers"});
  std::vector<const PciFunction*> dropped, working;
  int branch = 0;
  for (const PciFunction* gpu : nvidia_gpus(look)) {
    const int last = last_branch_for(look, *gpu);
    if (last != 0 && branch_of(version) > last && is_left_alone(look, *gpu)) {
      dropped.push_back(gpu);
      branch = branch == 0 ? last : std::min(branch, last);
    } else if (gpu->driver.value_or("") == "nvidia") {
      working.push_back(gpu);
    }
  }
  if (const auto at = line.find(".xx"); at != std::string::npos && at >= 3)
    branch = static_cast<int>(to_number(line.substr(at - 3, 3)).value_or(580));
  if (line.empty() && dropped.empty()) return;
  if (branch == 0) branch = 580;
  Finding& finding = look.found(
      text("the installed driver no longer supports this GPU; the last branch that does is {}.xx",
           branch));
  if (!line.empty()) finding.evidence.push_back(quoted_line(line));
  const std::string ignored = log == nullptr ? "" : newest_line(*log, {"will ignore this GPU"});
  if (!ignored.empty() && ignored != line) finding.evidence.push_back(quoted_line(ignored));
  if (line.empty()) finding.evidence.push_back(text("driver {}", printable(version)));
  for (const PciFunction* gpu : dropped) finding.evidence.push_back(describe(*gpu));
  if (!working.empty()) finding.severity = Severity::kWarning;
  advise_branch(look, finding, working, branch);
}

constexpr auto kDriverBranchesRules = std::to_array<Rule>({
    {"DRV06", Layer::kDriver, Severity::kFatal, true,
     msgid("the open kernel module with a GPU that is too old for it"),
     "HW02 DRV01 DRV09 DRV10 DRV11 LIB01 FW*", open_module_old_gpu},
    {"DRV07", Layer::kDriver, Severity::kFatal, true,
     msgid("a GPU that needs the open kernel module"), "HW02 DRV01 DRV09 DRV11 DRV23 LIB01 FW*",
     proprietary_module_new_gpu},
    {"DRV08", Layer::kDriver, Severity::kFatal, true,
     msgid("a GPU that the driver's branch does not support"),
     "HW02 DRV01 DRV09 DRV11 DRV28 LIB01 FW*", dropped_by_branch},
});

}  // namespace

std::span<const Rule> driver_branch_rules() {
  return kDriverBranchesRules;
}

}  // namespace berth::doctor
