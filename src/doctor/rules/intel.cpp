// Rule XPU02: Intel's driver for Level Zero and OpenCL is missing or does not support the GPU. Also
// part of FW03: a PyTorch that does not support a newer Intel GPU.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/builds.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// The integrated Intel GPUs, if programs are expected to use them: a SYCL adapter is installed,
/// and no other vendor's GPU exists.
std::vector<PciFunction> own_gpu_for_sycl(Examination& look) {
  const auto* adapter = look.see(look.facts.files.sycl_adapter);
  if (adapter == nullptr || adapter->empty() || !gpus_on_bus(look, kVendorNvidia).empty() ||
      !gpus_on_bus(look, kVendorAmd).empty())
    return {};
  return gpus_on_bus(look, kVendorIntel);
}

void not_installed(Examination& look) {
  auto cards = cards_on_bus(look, kVendorIntel);
  if (cards.empty()) cards = own_gpu_for_sycl(look);
  if (cards.empty() || look.missing(cards.front().driver)) return;
  Finding& finding = look.found(
      text("programs cannot reach the Intel GPU at {}: its Level Zero driver is not installed",
           cards.front().address));
  finding.evidence.push_back(fmt::format("libze_intel_gpu.so.1: {}", tr("missing")));
  finding.fix.push_back(on_system(look, "level_zero", ""));
}

const IntelKernel* row_for(const std::vector<IntelKernel>& rows, const PciFunction& gpu) {
  const std::string id = fmt::format("{:04x}", gpu.device);
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const IntelKernel& one) { return id.starts_with(one.begins); });
  return row == rows.end() ? nullptr : &*row;
}

/// The third number of a version: 30508 in the release "24.31.30508", or 31896 in the library
/// name's "1.6.31896". Returns 0 if there is no third number.
int build_of(std::string_view version) {
  const Version parts = version_of(version);
  return parts.size() > 2 ? parts[2] : 0;
}

/// Whether OpenVINO or PyOpenCL is installed. These also compute on integrated GPUs.
bool has_opencl_packages(Examination& look) {
  const auto* all = look.see(look.facts.python.distributions);
  return all != nullptr && std::any_of(all->begin(), all->end(), [](const Distribution& one) {
           return one.name == "openvino" || one.name == "pyopencl";
         });
}

bool has_xpu(Examination& look) {
  const TorchBuild* torch = look.see(look.facts.python.torch);
  return torch != nullptr && torch->xpu;
}

void older_than_gpu(Examination& look, const LibraryFile& driver, int build) {
  for (const PciFunction& gpu : gpus_on_bus(look, kVendorIntel)) {
    const IntelKernel* row = row_for(look.knowledge.compatibility().intel_runtimes, gpu);
    if (row == nullptr || build >= build_of(row->kernel)) continue;
    Finding& finding =
        look.found(text("Intel's compute runtime is too old for the GPU at {}: {} is the first "
                        "release that supports it ({})",
                        gpu.address, row->kernel, row->name));
    // Perhaps the user does not want to compute on an integrated GPU.
    if (!is_intel_card(gpu) && !has_opencl_packages(look) && !has_xpu(look))
      finding.severity = Severity::kWarning;
    finding.evidence = {
        fmt::format("{} → {}", driver.path, driver.target),
        fmt::format("/sys/bus/pci/devices/{}: 8086:{:04x}", gpu.address, gpu.device), row->source};
    const OsRelease* system = look.see(look.facts.machine.system);
    const bool is_ubuntu = system == nullptr || system->id == "ubuntu";
    finding.fix.push_back(on_system_between(
        look, "level_zero",
        is_ubuntu
            ? "sudo add-apt-repository -y ppa:kobuk-team/intel-graphics && sudo apt-get update"
            : "",
        "",
        text("install release {} or newer; for a container, install it in the image",
             row->kernel)));
    return;
  }
}

/// Reports GPUs that only the separate packages for older GPUs support. Intel's main packages
/// dropped them after 24.35.
void newer_than_gpu(Examination& look, const LibraryFile& driver, int build) {
  const auto gpus = gpus_on_bus(look, kVendorIntel);
  const auto& rows = look.knowledge.compatibility().intel_legacy;
  const auto is_served = [&](const PciFunction& gpu) {
    const IntelKernel* row = row_for(rows, gpu);
    return row == nullptr || build <= build_of(row->kernel);
  };
  const auto* legacy = look.see(look.facts.files.intel_legacy);
  if (gpus.empty() || legacy == nullptr || !legacy->empty() ||
      std::any_of(gpus.begin(), gpus.end(), is_served))
    return;
  const IntelKernel& row = *row_for(rows, gpus.front());
  Finding& finding =
      look.found(text("Intel's compute runtime no longer supports the GPU at {} ({}): {} was the "
                      "last release whose main packages support it",
                      gpus.front().address, row.name, row.kernel));
  if (!has_opencl_packages(look))
    finding.severity = Severity::kInfo;
  else
    finding.severity = Severity::kWarning;
  finding.evidence = {fmt::format("{} → {}", driver.path, driver.target),
                      fmt::format("libze_intel_gpu_legacy1.so.1: {}", tr("missing")), row.source};
  finding.fix.push_back(
      {"", text("also install Intel's packages for older GPUs: intel-opencl-icd-legacy1 and "
                "intel-level-zero-gpu-legacy1, from the releases of "
                "https://github.com/intel/compute-runtime, branch 24.35")});
}

void level_zero(Examination& look) {
  const auto* driver = look.see(look.facts.files.intel_driver);
  if (driver == nullptr) return;
  if (driver->empty()) return not_installed(look);
  // Skip the smaller numbers in some distributions' packages: they cannot be compared with Intel's
  // numbers.
  constexpr int kFirstNumber = 10'000;
  const int build = build_of(driver->front().version());
  if (build < kFirstNumber) return;
  older_than_gpu(look, driver->front(), build);
  if (look.findings().empty()) newer_than_gpu(look, driver->front(), build);
}

constexpr auto kIntelRules = std::to_array<Rule>({
    {"XPU02", Layer::kLibraries, Severity::kError, true,
     msgid("an Intel GPU without a Level Zero driver, or with a driver that does not support it"),
     "FW*", level_zero},
});

}  // namespace

/// Reports a PyTorch that is older than the GPU. PyTorch compiles its elementwise kernels for the
/// GPU at run time, but its oneDNN kernels must already support the GPU.
void torch_too_old_for_xpu(Examination& look) {
  if (!has_xpu(look)) return;
  const TorchBuild& torch = *look.facts.python.torch;
  for (const PciFunction& gpu : gpus_on_bus(look, kVendorIntel)) {
    const IntelKernel* row = row_for(look.knowledge.compatibility().torch_xpu, gpu);
    if (row == nullptr || !is_older(torch.version, row->kernel)) continue;
    Finding& finding =
        look.found(text("PyTorch {} is too old for the Intel GPU at {} ({}): {} is the first "
                        "release with documented support",
                        torch.version, gpu.address, row->name, row->kernel));
    finding.evidence = {
        fmt::format("{}: xpu = {}", torch.path, *torch.xpu),
        fmt::format("/sys/bus/pci/devices/{}: 8086:{:04x}", gpu.address, gpu.device), row->source};
    finding.fix.push_back(
        {install_command(look.facts.python, {"torch>=" + row->kernel, "--index-url",
                                             "https://download.pytorch.org/whl/xpu"}),
         ""});
    return;
  }
}

std::span<const Rule> intel_rules() {
  return kIntelRules;
}

}  // namespace berth::doctor
