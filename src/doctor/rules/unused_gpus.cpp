// Rules AMD06 and XPU04: GPUs that the kernel does not use for computing, because PCIe atomics are
// missing or the kernel is too old.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

std::string id_of(const PciFunction& gpu) {
  return fmt::format("{:04x}:{:04x}", gpu.vendor, gpu.device);
}

/// The log line in which the kernel says why it does not use an AMD GPU: "kfd kfd: amdgpu: skipped
/// device 1002:67df, PCI rejects atomics", "… device 1002:744c NOT added due to errors". Older
/// kernels omit "amdgpu:". If the kernel does not know the GPU, the line has only the family
/// ("PITCAIRN  not supported in kfd"), the graphics engine ("GC IP 0x… not supported in kfd") or
/// the device ("DID 6811 is missing in supported_devices").
std::string line_of_kfd(const std::vector<std::string>& log, const PciFunction& gpu,
                        bool is_the_only) {
  for (const std::string_view words : {"skipped device", "NOT added due to errors"})
    if (std::string line = newest_line(log, {"kfd", words, id_of(gpu)}); !line.empty()) return line;
  if (std::string line = newest_line(
          log, {"kfd", fmt::format("DID {:04x} is missing in supported_devices", gpu.device)});
      !line.empty())
    return line;
  if (!is_the_only || !newest_line(log, {"kfd", "added device " + id_of(gpu)}).empty()) return "";
  std::string line = newest_line(log, {"not supported in kfd"});
  return line.empty() ? newest_line(log, {"kfd not supported on this ASIC"}) : line;
}

/// Whether ROCm is installed, in the system or with PyTorch.
bool wants_rocm(Examination& look) {
  const auto& torch = look.facts.python.torch;
  return (torch && torch->hip) || look.see(look.facts.rocm.folder) != nullptr;
}

/// Whether another GPU can be used: ROCm lists a GPU that is not integrated, or the log says that
/// the kernel has added a GPU of the same model.
bool another_serves(const RocmFacts& rocm, const std::vector<std::string>& log,
                    const PciFunction& gpu) {
  if (rocm.nodes && std::any_of(rocm.nodes->begin(), rocm.nodes->end(),
                                [](const KfdNode& node) { return !node.integrated(); }))
    return true;
  return !newest_line(log, {"kfd", "added device " + id_of(gpu)}).empty();
}

void advise_atomics(Finding& finding) {
  finding.fix.push_back({"", text("use a slot with lanes directly from the CPU, not the chipset, "
                                  "without a riser or an adapter")});
  finding.fix.push_back({"sudo lspci -vvv | grep -iE 'bridge|atomicops'",
                         text("every bridge above the card must route PCIe atomics; processors "
                              "before Haswell and Ryzen do not support them")});
}

/// If the kernel log cannot be read, reports that ROCm lists no GPU although amdgpu drives a card.
void list_without_gpus(Examination& look, const std::vector<PciFunction>& cards) {
  const auto* nodes = look.see_whole(look.facts.rocm.nodes);
  if (nodes == nullptr || !nodes->empty() || !look.missing(look.facts.container.kind)) return;
  const GpuNode* kfd = look.see(look.facts.nodes.kfd);
  if (kfd == nullptr || kfd->denied() || !wants_rocm(look)) return;
  Finding& finding =
      look.found(text("the kernel offers no AMD GPU for computing: amdgpu drives the GPU at {}, "
                      "but ROCm's list of GPUs is empty",
                      cards.front().address));
  finding.evidence = {
      "/sys/class/kfd/kfd/topology/nodes: simd_count 0",
      fmt::format("/sys/bus/pci/devices/{}/driver → amdgpu", cards.front().address)};
  finding.fix.push_back(
      {"sudo dmesg | grep -i kfd", text("shows the reason: “PCI rejects atomics” means that the "
                                        "slot or the CPU lacks PCIe atomics")});
  advise_atomics(finding);
}

/// Reports a GPU that the older radeon driver uses, although amdgpu can support it.
bool taken_by_radeon(Examination& look) {
  for (const PciFunction& one : cards_on_bus(look, kVendorAmd)) {
    if (one.driver.value_or("") != "radeon" || !wants_rocm(look)) continue;
    Finding& finding = look.found(
        text("the AMD GPU at {} uses the radeon driver, but ROCm needs amdgpu", one.address));
    finding.evidence.push_back(fmt::format("/sys/bus/pci/devices/{}/driver → radeon", one.address));
    finding.fix.push_back(on_system(
        look, "kernel_argument",
        text("amdgpu then drives the GPU; ROCm itself supports GCN 3 and newer"),
        "radeon.si_support=0 radeon.cik_support=0 amdgpu.si_support=1 amdgpu.cik_support=1"));
    return true;
  }
  return false;
}

const IntelKernel* row_for(const std::vector<IntelKernel>& rows, const PciFunction& gpu) {
  const std::string id = fmt::format("{:04x}", gpu.device);
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const IntelKernel& one) { return id.starts_with(one.begins); });
  return row == rows.end() ? nullptr : &*row;
}

/// Whether the kernel has drivers that its distribution took from newer kernels.
bool takes_drivers_of_newer(std::string_view release) {
  constexpr auto kMarks =
      std::to_array<std::string_view>({".el8", ".el9", ".el10", "-oem", "-default"});
  return std::any_of(kMarks.begin(), kMarks.end(),
                     [&](std::string_view mark) { return contains(release, mark); });
}

/// Reports a card that the kernel's amdgpu does not support yet, if AMD's own driver is not
/// installed.
bool newer_than_amdgpu(Examination& look) {
  const std::string* release = look.see(look.facts.machine.kernel);
  if (release == nullptr || takes_drivers_of_newer(*release) ||
      look.facts.rocm.driver_release.has_value())
    return false;
  for (const PciFunction& gpu : gpus_on_bus(look, kVendorAmd)) {
    const IntelKernel* row = row_for(look.knowledge.compatibility().amd_kernels, gpu);
    if (row == nullptr || !gpu.driver.is_absent() || !is_older(*release, row->kernel)) continue;
    Finding& finding = look.found(
        text("kernel {} is too old for the AMD GPU at {}: {} is the first that supports it ({})",
             *release, gpu.address, row->kernel, row->name));
    finding.evidence = {
        "/proc/sys/kernel/osrelease: " + *release,
        fmt::format("/sys/bus/pci/devices/{}/driver: {}", gpu.address, tr("missing")), row->source};
    finding.fix.push_back(on_system(
        look, "kernel", text("the distribution's newest kernel, {} or later", row->kernel)));
    finding.fix.push_back({"sudo amdgpu-install --usecase=dkms",
                           text("or AMD's own driver, if it supports this kernel")});
    return true;
  }
  return false;
}

void left_out_by_kfd(Examination& look) {
  if (taken_by_radeon(look) || newer_than_amdgpu(look)) return;
  auto cards = cards_on_bus(look, kVendorAmd);
  std::erase_if(cards, [](const PciFunction& one) {
    return one.driver.value_or("") != "amdgpu" || one.is_asleep();
  });
  if (cards.empty()) return;
  const auto& log = look.facts.machine.kernel_log;
  if (!log) return list_without_gpus(look, cards);
  std::vector<std::string> told;
  for (const PciFunction& gpu : cards) {
    const std::string line = line_of_kfd(*log, gpu, cards.size() == 1);
    if (line.empty() || std::find(told.begin(), told.end(), id_of(gpu)) != told.end()) continue;
    told.push_back(id_of(gpu));
    const bool atomics = contains(line, "atomics");
    const bool unknown = contains(line, "supported");
    const bool another = another_serves(look.facts.rocm, *log, gpu);
    Finding& finding = look.found(
        atomics ? text("the kernel does not offer the AMD GPU at {} for computing: its path to the "
                       "CPU has no PCIe atomics",
                       gpu.address)
        : unknown ? text("the kernel does not support computing on the AMD GPU at {}, so ROCm "
                         "cannot use it",
                         gpu.address)
                  : text("the kernel does not offer the AMD GPU at {} for computing", gpu.address));
    // Without ROCm, this is only information: the kernel also logs this line at every boot for
    // cards that only drive a display.
    if (!wants_rocm(look))
      finding.severity = Severity::kInfo;
    else if (another)
      finding.severity = Severity::kWarning;
    finding.evidence.push_back(quoted_line(line));
    if (atomics)
      advise_atomics(finding);
    else if (unknown)
      finding.fix.push_back(
          {"", text("GPUs older than GCN 3 are only for graphics: use OpenCL by Mesa (rusticl), "
                    "Vulkan, or another card; a GPU newer than the kernel needs a newer kernel")});
    else
      finding.fix.push_back({"sudo dmesg | grep -iE 'kfd|amdgpu'",
                             text("the log lines before the quoted one say why")});
  }
}

/// Reports an Intel card that the kernel does not support yet. The kernel's driver knows such a
/// card, but skips it without the parameter force_probe.
void kernel_too_old(Examination& look) {
  const std::string* release = look.see(look.facts.machine.kernel);
  if (release == nullptr || takes_drivers_of_newer(*release)) return;
  for (const PciFunction& gpu : cards_on_bus(look, kVendorIntel)) {
    const std::string id = fmt::format("{:04x}", gpu.device);
    const IntelKernel* row = row_for(look.knowledge.compatibility().intel_kernels, gpu);
    if (row == nullptr || !is_older(*release, row->kernel)) continue;
    const auto& given = look.facts.platform.command_line;
    const std::string line = given.value_or("");
    const bool forced = contains(line, "force_probe=" + id) || contains(line, "force_probe=*");
    const auto& log = look.facts.machine.kernel_log;
    const std::string said =
        log ? newest_line(*log, {"graphics device " + id, "supported by"}) : "";
    // If a driver is bound and the log has no message about the card, the distribution has added a
    // newer driver to the kernel.
    if (!forced && said.empty() && !gpu.driver.is_absent()) continue;
    Finding& finding = look.found(
        text("kernel {} is too old for the Intel GPU at {}: {} is the first that supports it ({})",
             *release, gpu.address, row->kernel, row->name));
    finding.evidence.push_back("/proc/sys/kernel/osrelease: " + *release);
    if (forced) finding.evidence.push_back("/proc/cmdline: " + printable(line));
    if (!said.empty()) finding.evidence.push_back(quoted_line(said));
    if (gpu.driver.is_absent())
      finding.evidence.push_back(
          fmt::format("/sys/bus/pci/devices/{}/driver: {}", gpu.address, tr("missing")));
    finding.evidence.push_back(row->source);
    finding.fix.push_back(on_system(
        look, "kernel", text("the distribution's newest kernel, {} or later", row->kernel)));
    return;
  }
}

constexpr auto kUnusedGpusRules = std::to_array<Rule>({
    {"AMD06", Layer::kDriver, Severity::kFatal, true,
     msgid("an AMD GPU that the kernel does not offer for computing"),
     "HW02 AMD01 AMD02 AMD04 AMD05 FW*", left_out_by_kfd},
    {"XPU04", Layer::kDriver, Severity::kFatal, true,
     msgid("an Intel GPU that is newer than the kernel"), "HW02 XPU02 XPU03 FW*", kernel_too_old},
});

}  // namespace

std::span<const Rule> left_out_rules() {
  return kUnusedGpusRules;
}

}  // namespace berth::doctor
