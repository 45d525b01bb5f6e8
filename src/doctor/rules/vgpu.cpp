// Rule DRV35: a vGPU for which another driver is needed, or whose type does not support CUDA.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/memory.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// A type of cloud machine, and the PCI id of a GPU that is always a vGPU on such machines.
struct Part {
  const char* machine;  // DMI product name
  const char* maker;
  std::uint32_t device;
  const char* name;
};
// Azure offers the A10 only in NVadsA10 v5 machines, which have from a sixth of a GPU to two GPUs,
// always as vGPUs.
constexpr auto kParts =
    std::to_array<Part>({{"Virtual Machine", "Microsoft Corporation", 0x2236, "NVadsA10 v5"}});

bool answers_none(const DriverAnswers& driver) {
  if (driver.nvml_init && *driver.nvml_init != 0) return true;
  return driver.nvml_init && driver.gpus && driver.gpus->empty();
}

void plain_driver(Examination& look) {
  const std::string* kind = look.see(look.facts.machine.machine_kind);
  const std::string* maker = look.see(look.facts.machine.machine_maker);
  if (kind == nullptr || maker == nullptr || !answers_none(look.facts.driver) ||
      !look.missing(look.facts.nvidia.gridd) || !look.missing(look.facts.container.kind))
    return;
  for (const PciFunction* gpu : nvidia_gpus(look))
    for (const Part& row : kParts) {
      if (gpu->device != row.device || *kind != row.machine || *maker != row.maker) continue;
      Finding& finding =
          look.found(text("the GPU at {} is a vGPU ({}), which needs NVIDIA's GRID driver, but "
                          "another driver is installed",
                          gpu->address, row.name));
      finding.evidence = {fmt::format("/sys/class/dmi/id: {}, {}", *maker, *kind),
                          fmt::format("{} (10de:{:04x})", gpu->address, gpu->device),
                          fmt::format("/usr/bin/nvidia-gridd: {}", tr("missing")), nvml_says(look),
                          "https://github.com/dstackai/dstack/issues/1014"};
      finding.fix.push_back(
          {"az vm extension set --publisher Microsoft.HpcCompute --name NvidiaGpuDriverLinux "
           "--resource-group GROUP --vm-name NAME",
           text("first remove the other driver's packages; or install a driver from Azure's list "
                "of GRID drivers by hand")});
      return;
    }
}

/// The last letter of a vGPU's type: 'B' for "GRID T4-2B"; 0 for other names.
char letter_of(std::string_view name) {
  const std::size_t dash = name.rfind('-');
  if (dash == std::string_view::npos || dash + 3 > name.size()) return 0;
  const std::string_view size = name.substr(dash + 1, name.size() - dash - 2);
  return size.find_first_not_of("0123456789") == std::string_view::npos ? name.back() : 0;
}

void type_without_cuda(Examination& look) {
  // If CUDA starts, the vGPU's type supports CUDA.
  const int* cuda = look.see(look.facts.driver.cuda_init);
  if (cuda == nullptr || *cuda == 0 || managed_memory(look).kind != MemoryKind::kVgpu) return;
  for (const GpuAnswer& gpu : answers(look)) {
    const std::string name = gpu.name.value_or("");
    const char letter = letter_of(name);
    if (letter != 'A' && letter != 'B') continue;
    Finding& finding = look.found(text(
        "the vGPU {} is of a type for desktops, which does not support CUDA", printable(name)));
    finding.evidence = {cuda_says(*cuda),
                        "https://docs.nvidia.com/grid/latest/grid-vgpu-user-guide/"
                        "#cuda-open-cl-support-vgpu"};
    finding.fix.push_back(
        {"", text("on the host: choose a type that ends in Q or C, then restart the guest")});
    return;
  }
}

void vgpu(Examination& look) {
  if (!may_concern_nvidia(look.facts)) return;
  plain_driver(look);
  type_without_cuda(look);
}

constexpr auto kVgpuRules = std::to_array<Rule>({
    {"DRV35", Layer::kDriver, Severity::kFatal, true,
     msgid("a vGPU with the wrong driver, or of a type without CUDA support"),
     "HW02 DRV01 DRV09 DRV11 DRV28 DRV31 LIB01 FW*", vgpu},
});

}  // namespace

std::span<const Rule> vgpu_rules() {
  return kVgpuRules;
}

}  // namespace berth::doctor
