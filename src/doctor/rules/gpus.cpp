#include "doctor/rules/gpus.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "system/pci_names.hpp"

namespace berth::doctor {
namespace {

constexpr std::uint32_t kNvidia = 0x10de, kAmd = 0x1002;

std::vector<SeenGpu> on_the_bus(Examination& look) {
  std::vector<SeenGpu> gpus;
  const Compatibility& known = look.knowledge.compatibility();
  if (const auto* models = look.see(look.facts.gpu_models))
    for (const std::string& model : *models)
      gpus.push_back({model, "", known.capability_of(model)});
  if (!gpus.empty()) return gpus;
  // The GPU of a Jetson is part of its chip and not on the PCI bus.
  if (look.facts.machine.is_jetson) {
    const std::string* chip = look.see(look.facts.machine.tegra);
    return {{text("Jetson's GPU"), "", chip == nullptr ? "" : known.capability_of(*chip)}};
  }
  const auto* functions = look.see(look.facts.machine.pci);
  if (functions == nullptr) return gpus;
  for (const PciFunction& one : *functions) {
    if (one.vendor != kNvidia || !one.is_gpu()) continue;
    const std::string name = system::pci_name(static_cast<std::uint16_t>(one.vendor),
                                              static_cast<std::uint16_t>(one.device))
                                 .value_or("NVIDIA GPU");
    gpus.push_back({name, one.address, known.capability_of(name)});
  }
  return gpus;
}

/// Whether ROCm is set up: it is installed, or /dev/kfd was passed to the container.
bool is_rocm_meant(Examination& look) {
  if (look.see(look.facts.rocm.folder) != nullptr) return true;
  const GpuNode* kfd = look.see(look.facts.nodes.kfd);
  return kfd != nullptr && look.see(look.facts.container.kind) != nullptr;
}

/// Whether this node in the kernel's list of ROCm devices is a GPU that PyTorch for ROCm supports:
/// Vega or newer. An integrated GPU counts only if there is no NVIDIA GPU and ROCm is set up.
bool is_rocm_gpu(Examination& look, const KfdNode& node) {
  constexpr unsigned kVega = 90000;
  if (node.target < kVega) return false;
  return !node.integrated() || (seen_gpus(look).empty() && is_rocm_meant(look));
}

}  // namespace

std::vector<SeenGpu> seen_gpus(Examination& look) {
  const auto& answers = look.facts.driver.gpus;
  if (!answers || answers->empty()) return on_the_bus(look);
  std::vector<SeenGpu> gpus;
  for (const GpuAnswer& one : *answers) {
    const std::string name = one.name.value_or("NVIDIA GPU");
    gpus.push_back(
        {name, one.pci_address,
         one.compute_capability.value_or(look.knowledge.compatibility().capability_of(name))});
  }
  return gpus;
}

bool has_rocm_gpu(Examination& look) {
  if (const auto& nodes = look.facts.rocm.nodes;
      nodes && std::any_of(nodes->begin(), nodes->end(),
                           [&](const KfdNode& node) { return is_rocm_gpu(look, node); }))
    return true;
  const auto* functions = look.see(look.facts.machine.pci);
  if (functions == nullptr) return false;
  const auto& known = look.knowledge.compatibility().rocm_devices;
  return std::any_of(functions->begin(), functions->end(), [&](const PciFunction& one) {
    return one.vendor == kAmd && one.is_gpu() &&
           std::find(known.begin(), known.end(), fmt::format("{:04x}", one.device)) != known.end();
  });
}

namespace {

/// The version of the compat package's libcuda, if programs use this libcuda. It must be newer than
/// the module, and the GPU must support it. Returns "" if programs do not use it.
std::string forward_compatible(Examination& look, const std::string& module) {
  const auto& cuda = look.facts.libraries.cuda;
  if (!cuda || module.empty() ||
      (cuda->path + cuda->resolved).find("/compat/") == std::string::npos ||
      !is_older(module, cuda->version))
    return "";
  const DriverAnswers& answers = look.facts.driver;
  if (answers.cuda_init) return *answers.cuda_init == 0 ? cuda->version : "";
  // If CUDA was not started, decide by the names of the GPUs: consumer GPUs do not support forward
  // compatibility.
  for (const SeenGpu& gpu : seen_gpus(look))
    if (gpu.name.find("GeForce") != std::string::npos ||
        gpu.name.find("TITAN") != std::string::npos)
      return "";
  return cuda->version;
}

}  // namespace

SeenDriver nvidia_driver(Examination& look) {
  SeenDriver driver;
  const DriverAnswers& answers = look.facts.driver;
  driver.version = answers.driver_version.value_or(look.facts.nvidia.module_version.value_or(""));
  if (const std::string newer = forward_compatible(look, driver.version); !newer.empty()) {
    driver.version = newer;
    driver.cuda = look.knowledge.compatibility().cuda_of_driver(newer);
    return driver;
  }
  driver.cuda = answers.cuda_version.value_or("");
  if (driver.cuda.empty() && !driver.version.empty())
    driver.cuda = look.knowledge.compatibility().cuda_of_driver(driver.version);
  // On a Jetson without the compat package, the release of Jetson Linux determines the CUDA
  // version.
  if (driver.cuda.empty() && look.facts.machine.l4t && look.facts.files.compat.is_absent())
    for (const JetsonCuda& row : look.knowledge.compatibility().jetsons)
      if (row.l4t == *look.facts.machine.l4t) driver.cuda = row.cuda;
  if (driver.version.empty() && driver.cuda.empty()) {
    static_cast<void>(look.see(answers.driver_version));
    static_cast<void>(look.see(look.facts.nvidia.module_version));
  }
  return driver;
}

bool is_aarch64(const Facts& facts) {
  return facts.python.machine.value_or("") == "aarch64";
}

std::string torch_cuda(Examination& look) {
  const TorchBuild* torch = look.see(look.facts.python.torch);
  if (torch == nullptr) return "";
  const std::string* cuda = look.see(torch->cuda);
  // Remove the patch number: PyTorch before 1.5 has a CUDA version such as "10.1.243".
  return cuda == nullptr ? "" : beginning(*cuda);
}

const CondaPackage* conda_package(Examination& look, std::string_view name) {
  const auto* packages = look.see(look.facts.python.conda);
  if (packages == nullptr) return nullptr;
  for (const CondaPackage& one : *packages)
    if (one.name == name) return &one;
  return nullptr;
}

std::string named(const Distribution& one) {
  return one.name + " " + one.version;
}

}  // namespace berth::doctor
