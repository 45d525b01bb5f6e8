// Rules HW05 to HW07, HW09 and HW11 to HW13 about the connection of a GPU: links, bridges, NUMA
// memory. Such problems slow programs down, or make transfers between GPUs hang.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

std::string folder_of(const PciFunction& gpu) {
  return "/sys/bus/pci/devices/" + gpu.address;
}

/// GPUs that are awake and whose link the user can improve. Virtual machines only emulate links,
/// and a laptop's GPU cannot be moved to another slot.
std::vector<const PciFunction*> linked_gpus(Examination& look) {
  auto gpus = nvidia_gpus(look);
  if (look.facts.machine.is_virtual || look.facts.machine.is_laptop) gpus.clear();
  // GB10 and its CPU are one chip, so its link has no slot.
  constexpr std::uint32_t kGb10 = 0x2e;
  std::erase_if(
      gpus, [](const PciFunction* gpu) { return gpu->is_asleep() || gpu->device >> 8 == kGb10; });
  return gpus;
}

/// Whether several cards share the CPU's lanes, so that each card uses only 8 or 4 of the lanes
/// that it has.
bool lanes_are_shared(const std::vector<const PciFunction*>& gpus) {
  return gpus.size() > 1 && std::all_of(gpus.begin(), gpus.end(), [](const PciFunction* gpu) {
           const int width = gpu->link.width.value_or(0);
           return (width == 8 || width == 4) && width < gpu->link.max_width.value_or(0);
         });
}

void link_width(Examination& look) {
  const bool shared = lanes_are_shared(linked_gpus(look));
  for (const PciFunction* gpu : linked_gpus(look)) {
    const int* width = look.see(gpu->link.width);
    const int* most = look.see(gpu->link.max_width);
    const int* slot = look.see(gpu->port.max_width);
    if (width == nullptr || most == nullptr || slot == nullptr || *width <= 0) continue;
    const int can = std::min(*most, *slot);
    constexpr int kWidest = 32;  // a width of 63 means that the link is down
    if (*width >= can || *width > kWidest) continue;
    Finding& finding = look.found(
        text("the GPU at {} uses {} of {} possible PCIe lanes", gpu->address, *width, can));
    if (shared) finding.severity = Severity::kInfo;
    finding.evidence.push_back(text("{}/current_link_width: {}; the card supports {}, the slot {}",
                                    folder_of(*gpu), *width, *most, *slot));
    finding.fix.push_back({"", text("reseat the card, without a riser; check in the firmware setup "
                                    "whether its slot is bifurcated")});
  }
}

void link_speed(Examination& look) {
  for (const PciFunction* gpu : linked_gpus(look)) {
    const auto* answers = look.see(look.facts.driver.gpus);
    if (answers == nullptr) return;
    const double* speed = look.see(gpu->link.gigatransfers);
    const double* most = look.see(gpu->link.max_transfers);
    if (speed == nullptr || most == nullptr) continue;
    // An idle GPU slows its link down. The speed only counts while the GPU is busy.
    constexpr double kBusy = 50;
    const auto busy = std::find_if(answers->begin(), answers->end(), [&](const GpuAnswer& answer) {
      return answer.pci_address == gpu->address && answer.utilization_percent.value_or(0) >= kBusy;
    });
    const double can = std::min(*most, gpu->port.max_transfers.value_or(*most));
    if (busy == answers->end() || *speed >= can) continue;
    Finding& finding =
        look.found(text("the PCIe link of the busy GPU at {} runs at {} GT/s, but supports {}",
                        gpu->address, *speed, can));
    finding.evidence.push_back(text("{}/current_link_speed: {} GT/s at {} % use", folder_of(*gpu),
                                    *speed, *busy->utilization_percent));
    finding.fix.push_back({"", text("set the slot's speed to Auto in the firmware setup; update "
                                    "the firmware; try without a riser")});
    finding.fix.push_back(
        {fmt::format("sudo setpci -s {} CAP_EXP+30.w",
                     pasted(gpu->port_address.empty() ? gpu->address : gpu->port_address)),
         text("shows the link's target speed (last digit); if bit 5 is set, the hardware must not "
              "change the speed")});
  }
}

void aer_errors(Examination& look) {
  for (const PciFunction* gpu : linked_gpus(look)) {
    const AerCounts* own = look.see(gpu->errors);
    const AerCounts* slot = look.see(gpu->port_errors);
    const std::uint64_t grave = (own ? own->uncorrectable : 0) + (slot ? slot->uncorrectable : 0);
    if (grave == 0) continue;
    Finding& finding =
        look.found(text_n("the PCIe link of the GPU at {1} had {0} uncorrectable error",
                          "the PCIe link of the GPU at {1} had {0} uncorrectable errors",
                          static_cast<long long>(grave), grave, gpu->address));
    finding.evidence.push_back(folder_of(*gpu) + "/aer_dev_nonfatal, aer_dev_fatal");
    finding.fix.push_back({"", text("reseat the card, without a riser; check its cables")});
    finding.fix.push_back(
        {"sudo dmesg | grep -i aer", text("shows the link's errors in the kernel's log")});
  }
}

/// Reports many corrected errors. Each one costs only the time to repeat a transfer, but many
/// usually mean a bad cable or riser.
void repeated_errors(Examination& look) {
  constexpr std::ptrdiff_t kOften = 10;
  const auto* log = look.see(look.facts.machine.kernel_log);
  static_cast<void>(look.see_whole(look.facts.machine.pci));
  if (log == nullptr || look.facts.machine.is_virtual) return;
  auto gpus = cards_on_bus(look, kVendorAmd);
  for (const PciFunction* gpu : nvidia_gpus(look)) gpus.push_back(*gpu);
  for (const PciFunction& gpu : gpus) {
    // If the card's position on the bus could not be read, this call records that the slot is
    // unknown.
    look.see(gpu.redirecting_bridges);
    std::ptrdiff_t count = 0;
    std::string newest;
    for (const std::string& line : *log) {
      if (!contains(line, "PCIe Bus Error: severity=Corrected") ||
          !(contains(line, gpu.address) ||
            (!gpu.port_address.empty() && contains(line, gpu.port_address))))
        continue;
      ++count;
      newest = line;
    }
    if (count < kOften) continue;
    Finding& finding =
        look.found(text("the PCIe link of the GPU at {} has errors that were corrected by retries: "
                        "{} in the kernel's log",
                        gpu.address, count));
    finding.evidence.push_back(quoted_line(newest));
    finding.fix.push_back({"", text("reseat the card, without a riser or with a shorter one; or "
                                    "set the slot to a lower PCIe generation")});
    return;
  }
}

void link_errors(Examination& look) {
  aer_errors(look);
  if (look.findings().empty()) repeated_errors(look);
}

/// NVIDIA and AMD GPUs whose PCIe link may enter a sleep state (ASPM) even while the GPU is awake.
std::vector<const PciFunction*> sleeping_links(Examination& look) {
  std::vector<const PciFunction*> gpus;
  // Kernels before 5.5 do not report ASPM for single links. If the policy is powersave or
  // powersupersave, all links may sleep.
  const std::string policy = look.facts.machine.aspm_policy.value_or("");
  const bool saved_by_policy = policy.find("[powersave") != std::string::npos ||
                               policy.find("[powersupersave") != std::string::npos;
  if (const auto* functions = look.see(look.facts.machine.pci))
    for (const PciFunction& one : *functions)
      if (one.is_gpu() && (one.vendor == 0x10de || one.vendor == 0x1002) &&
          one.aspm.value_or(saved_by_policy))
        gpus.push_back(&one);
  return gpus;
}

void aspm_suspect(Examination& look) {
  const auto gpus = sleeping_links(look);
  if (gpus.empty()) return;
  const auto* log = look.see(look.facts.machine.kernel_log);
  if (log == nullptr) return;
  std::string line;
  for (const std::string_view mark : {"): 79,", "): 62,"})
    if (line.empty()) line = newest_line(*log, {"NVRM: Xid", mark});
  // Bit 14 of the uncorrectable errors means a completion timeout.
  if (line.empty()) line = newest_line(*log, {"aer_uncor_status: 0x00004000"});
  if (line.empty()) line = newest_line(*log, {"CmpltTO"});
  if (line.empty()) line = newest_line(*log, {"NVRM", "fallen off the bus"});
  if (line.empty()) return;
  Finding& finding = look.found(
      text("the PCIe link of the GPU at {} may sleep (ASPM), and contact with the GPU was lost",
           gpus.front()->address));
  finding.evidence.push_back(quoted_line(line));
  for (const auto* gpu : gpus)
    if (gpu->aspm) finding.evidence.push_back(folder_of(*gpu) + "/link/l1_aspm: 1");
  if (const auto& policy = look.facts.machine.aspm_policy)
    finding.evidence.push_back("/sys/module/pcie_aspm/parameters/policy: " + printable(*policy));
  finding.fix.push_back(
      {"echo performance | sudo tee /sys/module/pcie_aspm/parameters/policy",
       text("keeps links awake until the next boot; for a permanent setting, boot with "
            "pcie_aspm.policy=performance. ASPM is only a suspected cause")});
}

/// NVIDIA GPUs that communicate over PCIe: at least two GPUs, and no NVSwitch.
std::vector<const PciFunction*> peers(Examination& look) {
  auto gpus = nvidia_gpus(look);
  const auto& functions = look.facts.machine.pci;
  const bool switched =
      functions && std::any_of(functions->begin(), functions->end(),
                               [](const PciFunction& one) { return one.is_nvswitch(); });
  if (gpus.size() < 2 || switched) gpus.clear();
  return gpus;
}

void acs_redirect(Examination& look) {
  std::vector<std::string> bridges;
  for (const PciFunction* gpu : peers(look)) {
    const auto* redirecting = look.see(gpu->redirecting_bridges);
    if (redirecting == nullptr) continue;
    for (const std::string& one : *redirecting)
      if (std::find(bridges.begin(), bridges.end(), one) == bridges.end()) bridges.push_back(one);
  }
  if (bridges.empty()) return;
  Finding& finding = look.found(
      text("ACS redirects transfers between GPUs through the root complex; NCCL may hang"));
  finding.evidence.push_back(
      text("ACS control of {}: requests or completions are redirected", fmt::join(bridges, ", ")));
  finding.fix.push_back({"", text("turn ACS off in the firmware setup (on many boards, it is one "
                                  "of the IOMMU or VT-d settings)")});
  std::string commands;
  for (const std::string& one : bridges)
    commands += (commands.empty() ? "" : "\n") +
                fmt::format("sudo setpci -s {} ECAP_ACS+6.w=0000", pasted(one));
  finding.fix.push_back(
      {commands, text("lasts until the next boot; virtual machines lose their isolation")});
}

/// Reports transfers that the IOMMU blocked: "nvidia 0000:07:00.0: AMD-Vi: Event logged
/// [IO_PAGE_FAULT …", "DMAR: [DMA Read] Request device [07:00.0] fault addr …".
void iommu_faults(Examination& look) {
  const auto* functions = look.see(look.facts.machine.pci);
  const auto& log = look.facts.machine.kernel_log;
  if (functions == nullptr || !log) return;
  for (const PciFunction& gpu : *functions) {
    if (!gpu.is_gpu() || (gpu.vendor != 0x10de && gpu.vendor != 0x1002) ||
        gpu.address.size() < 12 || gpu.driver.value_or("") == "vfio-pci")
      continue;
    const std::string near = gpu.address.substr(5);
    std::string line = newest_line(*log, {"IO_PAGE_FAULT", near});
    if (line.empty()) line = newest_line(*log, {"DMAR: [DMA", "[" + near + "]"});
    if (line.empty()) continue;
    Finding& finding = look.found(
        text("the IOMMU has blocked transfers of the GPU at {}: programs on it hang or fail",
             gpu.address));
    finding.severity = Severity::kError;
    finding.evidence = {quoted_line(line), "https://github.com/NVIDIA/cuda-samples/issues/48"};
    finding.fix.push_back(on_system(look, "kernel_argument",
                                    text("the IOMMU then translates no addresses for the host's "
                                         "devices; passthrough to virtual machines still works"),
                                    "iommu=pt"));
    return;
  }
}

void iommu_translated(Examination& look) {
  iommu_faults(look);
  if (!look.findings().empty()) return;
  std::vector<std::string> found;
  for (const PciFunction* gpu : peers(look)) {
    const std::string* type = look.see(gpu->iommu);
    if (type != nullptr && type->starts_with("DMA"))
      found.push_back(folder_of(*gpu) + "/iommu_group/type: " + printable(*type));
  }
  if (found.size() < 2) return;
  Finding& finding =
      look.found(text("the IOMMU translates addresses of transfers between {} GPUs; the transfers "
                      "may be slow or hang",
                      found.size()));
  finding.evidence = std::move(found);
  finding.fix.push_back(on_system(look, "kernel_argument",
                                  text("the IOMMU then translates no addresses for the host's "
                                       "devices; passthrough to virtual machines still works"),
                                  "iommu=pt"));
  finding.fix.push_back(
      {"NCCL_P2P_DISABLE=1 …",
       text("tests this cause without a reboot; NCCL is slower with this setting")});
}

void numa_remote(Examination& look) {
  const auto* own = look.see(look.facts.process.cpus);
  if (own == nullptr || own->empty()) return;
  bool any_near = false;
  const PciFunction* far = nullptr;
  for (const PciFunction* gpu : nvidia_gpus(look)) {
    const auto* near = look.see(gpu->near_cpus);
    if (near == nullptr || near->empty() || gpu->numa_node.value_or(-1) < 0) continue;
    const bool close = std::any_of(own->begin(), own->end(), [&](int cpu) {
      return std::find(near->begin(), near->end(), cpu) != near->end();
    });
    any_near = any_near || close;
    if (!close) far = gpu;
  }
  // If another GPU is near the cores of this process, the user can choose that GPU.
  if (far == nullptr || any_near) return;
  Finding& finding = look.found(
      text("this process may only run on cores that are far from the GPU at {}", far->address));
  finding.evidence.push_back(
      text("the GPU is on NUMA node {}, and this process may use none of that node's {} cores",
           *far->numa_node, far->near_cpus->size()));
  finding.fix.push_back(
      {fmt::format("numactl --cpunodebind={0} --membind={0} python …", *far->numa_node),
       text("or use berth run, which does this automatically")});
}

constexpr auto kLinksRules = std::to_array<Rule>({
    {"HW05", Layer::kHardware, Severity::kWarning, false, msgid("a PCIe link with lanes missing"),
     "", link_width},
    {"HW06", Layer::kHardware, Severity::kWarning, true,
     msgid("a PCIe link that is slow while the GPU works"), "", link_speed},
    {"HW07", Layer::kHardware, Severity::kWarning, true, msgid("errors of a PCIe link"), "",
     link_errors},
    {"HW09", Layer::kHardware, Severity::kWarning, true,
     msgid("a lost GPU whose PCIe link may sleep (ASPM)"), "HW07 HW08 DRV23", aspm_suspect},
    {"HW11", Layer::kHardware, Severity::kWarning, true,
     msgid("transfers between GPUs that ACS redirects"), "RT08", acs_redirect},
    {"HW12", Layer::kHardware, Severity::kWarning, true,
     msgid("transfers between GPUs that an IOMMU translates"), "HW11 RT08", iommu_translated},
    {"HW13", Layer::kHardware, Severity::kWarning, false,
     msgid("a process on CPU cores far from the GPU"), "", numa_remote},
});

}  // namespace

std::span<const Rule> link_rules() {
  return kLinksRules;
}

}  // namespace berth::doctor
