// Rules FW02, FW03, FW04, FW07, FW12, XPU01: whether a framework's build is compatible with the
// driver and the GPUs.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/builds.hpp"
#include "doctor/rules/cuda_compilers.hpp"
#include "doctor/rules/cuda_uses.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/reinstall.hpp"
#include "doctor/rules/requirement.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// Whether the driver is too old for a CUDA version. Compares the CUDA version that the driver
/// reports, if it is known, because on WSL the driver version is that of the Windows driver.
bool too_old(const Compatibility& known, const SeenDriver& driver, const std::string& cuda) {
  const Version wanted = version_of(cuda), has = version_of(driver.cuda);
  if (wanted.empty()) return false;
  if (!has.empty() && has[0] < wanted[0]) return true;
  if (!has.empty() && has[0] > wanted[0]) return false;
  if (!has.empty() && wanted[0] < 11) return is_older(driver.cuda, cuda);
  // The driver supports the CUDA version that it reports and all older ones. With forward
  // compatibility, the reported version is that of the compat libcuda.
  if (!has.empty() && !is_older(driver.cuda, cuda)) return false;
  const std::string lowest = known.driver_for(cuda);
  return !driver.version.empty() && !lowest.empty() && is_older(driver.version, lowest);
}

void add_torch_fix(Examination& look, Finding& finding) {
  const auto& torch = look.facts.python.torch;
  add_reinstall(look, finding,
                wish_of(look, Framework::kTorch, torch ? torch->version : std::string()));
}

/// Adds a fix that first uninstalls the old package and then installs the new one. pip would keep
/// both, because builds for another CUDA version have another package name.
void replace_package(Examination& look, Finding& finding, const CudaUse& use) {
  if (!add_reinstall(look, finding, wish_of(look, *use.framework)) ||
      look.facts.python.is_externally_managed)
    return;
  std::vector<std::string> names{use.package};
  // JAX has two packages for CUDA. Uninstall also the second one, the PJRT plugin.
  if (use.framework == Framework::kJax)
    names.push_back(use.package.substr(0, use.package.rfind('-')) + "-pjrt");
  std::string& command = finding.fix.back().command;
  command = uninstall_command(look.facts.python, names) + "\n" + command;
}

std::string said(const SeenDriver& driver) {
  if (driver.version.empty()) return text("the driver supports CUDA up to {}", driver.cuda);
  if (driver.cuda.empty()) return text("the driver is version {}", driver.version);
  return text("the driver is version {} and supports CUDA up to {}", driver.version, driver.cuda);
}

/// Reports an image that is too new for the driver and relies on compat libraries, although only
/// data centre GPUs support them.
void image_too_new(Examination& look, const SeenDriver& driver) {
  const auto image = look.facts.process.variable("CUDA_VERSION");
  const std::string* cuda = look.see(image);
  if (cuda == nullptr || driver.cuda.empty() || !is_older(driver.cuda, beginning(*cuda))) return;
  if (look.facts.driver.cuda_init.value_or(0) != 804) return;
  // If the image declares that it supports this driver, CTR14 reports why it does not work.
  const std::string says = variable_or_empty(look, "NVIDIA_REQUIRE_CUDA");
  const std::string gpu = seen_gpus(look).empty() ? "" : seen_gpus(look).front().name;
  if (!says.empty() && !look.missing(look.facts.files.compat) &&
      satisfies(says, {driver.version, driver.cuda, gpu}) == Satisfied::kYes)
    return;
  Finding& finding =
      look.found(text("the image has CUDA {}, newer than the driver's {}, and this GPU does not "
                      "support its compat library",
                      *cuda, driver.cuda));
  finding.evidence.push_back("CUDA_VERSION=" + *cuda);
  finding.evidence.push_back(said(driver));
  finding.evidence.push_back(
      text("cuInit returns 804: forward compatibility on a GPU that does not support it"));
  finding.fix.push_back(
      {"", text("on the host, update the driver to one for CUDA {}; or use an image with CUDA {}",
                beginning(*cuda), driver.cuda)});
}

/// The first package that needs a newer CUDA than the driver supports; nullptr if there is none.
const CudaUse* too_new(const Compatibility& known, const SeenDriver& driver,
                       const std::vector<CudaUse>& uses) {
  const auto one = std::find_if(uses.begin(), uses.end(), [&](const CudaUse& use) {
    return too_old(known, driver, use.cuda);
  });
  return one == uses.end() ? nullptr : &*one;
}

/// Reports NVIDIA's Python bindings that are too new for the driver. They contain a CUDA runtime,
/// which the driver may reject although it accepts those of all frameworks.
void bindings_too_new(Examination& look) {
  const SeenDriver driver = nvidia_driver(look);
  const Version has =
      version_of(driver.cuda.empty() ? look.knowledge.compatibility().cuda_of_branch(driver.version)
                                     : driver.cuda);
  if (has.empty() || seen_gpus(look).empty()) return;
  for (const char* name : {"cuda-bindings", "cuda-python"}) {
    const auto package = look.facts.python.distribution(name);
    const Distribution* one = look.see(package);
    if (one == nullptr) continue;
    const Version wants = version_of(one->version);
    if (wants.empty() || wants[0] < 12 || wants[0] <= has[0]) continue;
    Finding& finding = look.found(text(
        "the NVIDIA driver ({}) is too old for {}, which was built with CUDA {}",
        driver.version.empty() ? "CUDA " + driver.cuda : driver.version, named(*one), wants[0]));
    finding.severity = Severity::kError;
    finding.evidence = {said(driver), one->path, "https://github.com/NVIDIA/cutlass/issues/2866"};
    const auto& python = look.facts.python;
    if (!python.distribution("nvidia-cutlass-dsl") && !python.distribution("numba-cuda") &&
        !python.distribution("cuda-core"))
      finding.severity = Severity::kInfo;
    finding.fix.push_back(
        {install_command(look.facts.python, {fmt::format("cuda-python<{}", has[0] + 1)}),
         text("installs the newest release for this driver")});
    return;
  }
}

void framework_too_new(Examination& look) {
  const auto frameworks = framework_uses(look), others = library_uses(look);
  const bool in_image = static_cast<bool>(look.facts.process.variable("CUDA_VERSION"));
  if (seen_gpus(look).empty()) return;
  if (frameworks.empty() && others.empty() && !in_image) return ptx_newer_than_driver(look);
  const SeenDriver driver = nvidia_driver(look);
  const Compatibility& known = look.knowledge.compatibility();
  const CudaUse* use = too_new(known, driver, frameworks);
  if (use == nullptr) {
    ptx_newer_than_driver(look);
    if (!look.findings().empty()) return;
  }
  const bool frameworks_fit = use == nullptr && !frameworks.empty();
  if (use == nullptr) use = too_new(known, driver, others);
  if (use == nullptr) return image_too_new(look, driver);
  const std::string has = driver.version.empty() ? "CUDA " + driver.cuda : driver.version;
  Finding& finding =
      look.found(text("the NVIDIA driver ({}) is too old for {}, which was built with CUDA {}", has,
                      use->what, use->cuda));
  // The frameworks work with this driver, so perhaps the user does not need this package on the
  // GPU.
  if (frameworks_fit) finding.severity = Severity::kWarning;
  finding.evidence.push_back(said(driver));
  finding.evidence.push_back(fmt::format("{}: CUDA {}", use->path, use->cuda));
  if (use->framework == Framework::kTorch)
    add_torch_fix(look, finding);
  else if (use->framework)
    replace_package(look, finding, *use);
  if (const std::string lowest = known.driver_for(use->cuda); !lowest.empty())
    finding.fix.push_back(
        {"", text("update the driver to {} or newer (for a container, on the host); this needs "
                  "root and a reboot; the CUDA toolkit and nvcc do not matter",
                  lowest)});
}

void driver_too_old(Examination& look) {
  framework_too_new(look);
  if (look.findings().empty()) bindings_too_new(look);
}

struct Lacking {
  SeenGpu gpu;
  bool is_newer = false;  // the GPU is newer than all GPUs that the wheel supports
  bool ptx_only = false;
};

bool is_newer_than(const Compatibility& known, const std::string& cuda,
                   const std::string& capability) {
  if (const ArchToolkits* bounds = known.toolkits_of(capability)) {
    if (!bounds->first.empty() && is_older(cuda, bounds->first)) return true;
    if (!bounds->last.empty() && is_older(bounds->last, beginning(cuda))) return false;
  }
  for (const WheelArch& row : known.torch_archs)
    if (row.cuda == beginning(cuda) && !row.arch.empty())
      return !is_older(capability, row.arch.front());
  return false;
}

/// Whether conda-forge's builds for this CUDA version have kernels for a GPU. All releases of a
/// package have the same kernels.
Kernels conda_kernels(const Compatibility& known, const std::string& cuda,
                      const std::string& capability) {
  for (const WheelArch& row : known.conda_archs)
    if (in_range(cuda, row.cuda)) return kernels_of(row, capability);
  return Kernels::kUnknown;
}

/// Whether the driver rejects the PTX of this CUDA version because the PTX is newer than the
/// driver.
bool ptx_is_too_new(Examination& look, const std::string& cuda) {
  const SeenDriver driver = nvidia_driver(look);
  return !driver.cuda.empty() && is_older(driver.cuda, beginning(cuda));
}

std::vector<Lacking> gpus_without_kernels(Examination& look) {
  std::vector<Lacking> lacking;
  const std::string cuda = torch_cuda(look);
  if (cuda.empty()) return lacking;
  const auto gpus = seen_gpus(look);
  const bool is_own = look.facts.python.has_pytorchs_own_build();
  const TorchCode* code = is_own || gpus.empty() ? nullptr : look.see(look.facts.python.torch_code);
  const CondaPackage* conda = conda_package(look, "pytorch");
  const bool by_conda =
      !is_own && code == nullptr && conda != nullptr && conda->build.starts_with("cuda");
  if (!is_own && code == nullptr && !by_conda) return lacking;
  const Compatibility& known = look.knowledge.compatibility();
  for (const SeenGpu& gpu : gpus) {
    if (gpu.capability.empty()) continue;
    const Kernels kernels =
        by_conda ? conda_kernels(known, cuda, gpu.capability)
        : is_own ? torch_kernels(known, look.facts.python.torch->version, cuda,
                                 is_aarch64(look.facts), gpu.capability)
                 : kernels_of({"", cuda, false, code->sass, code->ptx}, gpu.capability);
    if (kernels == Kernels::kByPtx && ptx_is_too_new(look, cuda))
      lacking.push_back({gpu, true, true});
    if (kernels == Kernels::kLacks)
      lacking.push_back({gpu,
                         is_own || by_conda
                             ? is_newer_than(known, cuda, gpu.capability)
                             : code->sass.empty() || !is_older(gpu.capability, code->sass.front()),
                         false});
  }
  return lacking;
}

std::string list_of(const std::vector<std::string>& sass, const std::string& ptx) {
  std::string list = fmt::format("{}", fmt::join(sass, ", "));
  if (!ptx.empty()) list += (list.empty() ? "" : ", ") + ptx + "+PTX";
  return list;
}

std::string arch_list(const Compatibility& known, std::string_view version, std::string_view cuda,
                      bool aarch64) {
  for (const WheelArch& row : known.torch_archs)
    if (row.aarch64 == aarch64 && row.cuda == beginning(cuda) && in_range(version, row.versions))
      return list_of(row.arch, row.ptx);
  return "";
}

void arch_missing(Examination& look, bool newer) {
  const auto lacking = gpus_without_kernels(look);
  const auto mine = std::find_if(lacking.begin(), lacking.end(),
                                 [&](const Lacking& one) { return one.is_newer == newer; });
  if (mine == lacking.end()) return;
  const TorchBuild& torch = *look.facts.python.torch;
  const std::string cuda = torch_cuda(look);
  Finding& finding = look.found(
      mine->ptx_only
          ? text(
                "the driver cannot compile PyTorch {}'s kernels for the {} (compute capability {})",
                torch.version, mine->gpu.name, mine->gpu.capability)
          : text("PyTorch {} has no kernels for the {} (compute capability {})", torch.version,
                 mine->gpu.name, mine->gpu.capability));
  finding.evidence.push_back(fmt::format("{}: CUDA {}", torch.path, cuda));
  const std::string list =
      arch_list(look.knowledge.compatibility(), torch.version, cuda, is_aarch64(look.facts));
  if (const auto& code = look.facts.python.torch_code) {
    finding.evidence.push_back(
        text("{} was compiled for {}", code->file, list_of(code->sass, code->ptx)));
  } else if (!list.empty()) {
    finding.evidence.push_back(text("this wheel was compiled for {}", list));
  } else if (const auto* bounds =
                 look.knowledge.compatibility().toolkits_of(mine->gpu.capability)) {
    finding.evidence.push_back(newer ? text("CUDA {} is the first release that compiles for {}",
                                            bounds->first, bounds->capability)
                                     : text("CUDA {} is the last release that compiles for {}",
                                            bounds->last, bounds->capability));
  }
  add_torch_fix(look, finding);
  if (finding.fix.empty())
    finding.fix.push_back(
        {"", newer ? text("update the driver first: it is too old for all wheels with kernels for "
                          "this GPU ({})",
                          said(nvidia_driver(look)))
                   : text("no release known to Berth has a wheel for this GPU and this Python: use "
                          "an older Python, or build PyTorch from source")});
}

void arch_missing_new(Examination& look) {
  arch_missing(look, true);
  if (look.findings().empty()) tensorflow_too_old(look);
  if (look.findings().empty()) packages_without_kernels(look, true);
  if (look.findings().empty()) cuda_too_old_for_gpu(look);
  if (look.findings().empty()) compiler_without_gpu(look, true);
  if (look.findings().empty()) torch_too_old_for_xpu(look);
}

void jax_dropped(Examination& look) {
  for (const JaxPlugin& row : look.knowledge.compatibility().jax) {
    const auto plugin =
        look.facts.python.distribution(fmt::format("jax-cuda{}-plugin", row.cuda_major));
    if (!plugin || row.capability.empty()) continue;
    for (const SeenGpu& gpu : seen_gpus(look)) {
      if (gpu.capability.empty() || !is_older(gpu.capability, row.capability)) continue;
      Finding& finding =
          look.found(text("{} supports compute capability {} and newer; the {} has {}",
                          named(*plugin), row.capability, gpu.name, gpu.capability));
      finding.evidence.push_back(plugin->path);
      add_reinstall(look, finding, wish_of(look, Framework::kJax));
      return;
    }
  }
}

void arch_missing_old(Examination& look) {
  arch_missing(look, false);
  jax_dropped(look);
  if (look.findings().empty()) packages_without_kernels(look, false);
  if (look.findings().empty()) cuda_too_new_for_gpu(look);
  if (look.findings().empty()) tensorflow_without_code(look);
  if (look.findings().empty()) compiler_without_gpu(look, false);
}

void wrong_backend(Examination& look) {
  const TorchBuild* torch = look.see(look.facts.python.torch);
  if (torch == nullptr) return other_vendor(look);
  const bool nvidia = !seen_gpus(look).empty(), amd = has_rocm_gpu(look);
  if (nvidia == amd) return;
  const bool wrong = nvidia ? static_cast<bool>(torch->hip) : static_cast<bool>(torch->cuda);
  if (!wrong) return other_vendor(look);
  Finding& finding = look.found(
      nvidia
          ? text("PyTorch {} is built for AMD's ROCm, but the GPU is from NVIDIA", torch->version)
          : text("PyTorch {} is built for NVIDIA's CUDA, but the GPU is from AMD", torch->version));
  finding.evidence.push_back(torch->path);
  if (amd && look.facts.rocm.nodes)
    for (const KfdNode& node : *look.facts.rocm.nodes)
      finding.evidence.push_back(
          fmt::format("/sys/class/kfd/kfd/topology/nodes/{}: {}", node.number, node.gfx()));
  if (nvidia) {
    add_torch_fix(look, finding);
  } else if (const auto rocm = look.knowledge.compatibility().newest_rocm(); !rocm.empty()) {
    finding.fix.push_back(torch_install(look, {"--force-reinstall", "torch"}, "rocm" + rocm, ""));
  }
}

/// Reports that the release of PyTorch that supports the GPU needs another Python.
void python_unsupported(Examination& look) {
  const std::string* python = look.see(look.facts.python.version);
  const TorchBuild* torch = look.see(look.facts.python.torch);
  if (python == nullptr || torch == nullptr) return;
  Wish wish = wish_of(look, Framework::kTorch);
  const bool lacks = std::any_of(
      wish.capabilities.begin(), wish.capabilities.end(), [&](const std::string& capability) {
        return !capability.empty() &&
               torch_kernels(look.knowledge.compatibility(), torch->version,
                             torch->cuda.value_or(""), wish.aarch64, capability) == Kernels::kLacks;
      });
  if (!lacks || recipe_for(look.knowledge.compatibility(), wish)) return;
  wish.python = "";
  const auto recipe = recipe_for(look.knowledge.compatibility(), wish);
  if (!recipe) return;
  Finding& finding =
      look.found(text("no PyTorch that supports this GPU is available for Python {}", *python));
  finding.evidence.push_back(text("PyTorch {} supports this GPU, and is available for Python {}",
                                  recipe->build.release, recipe->build.python));
  finding.fix.push_back(
      {"", text("create an environment with this Python version and install PyTorch there")});
}

void torch_without_xpu(Examination& look) {
  const TorchBuild* torch = look.see(look.facts.python.torch);
  auto cards = cards_on_bus(look, kVendorIntel);
  const auto extension = look.facts.python.distribution("intel-extension-for-pytorch");
  const bool is_card = !cards.empty();
  // An integrated GPU counts only if Intel's extension for PyTorch is installed.
  if (!is_card && extension) cards = gpus_on_bus(look, kVendorIntel);
  if (torch == nullptr || cards.empty() || !look.missing(torch->xpu)) return;
  // If the machine also has a GPU of another vendor, PyTorch may have been built for that GPU.
  // Intel's extension adds support for Intel GPUs itself, except for the CPU build on PyPI.
  if (!seen_gpus(look).empty() || has_rocm_gpu(look)) return;
  if (extension && (local_part(extension->version).starts_with("xpu") ||
                    local_part(extension->version).starts_with("gpu")))
    return;
  Finding& finding =
      look.found(text("PyTorch {} is built without XPU, so it does not see the Intel GPU at {}",
                      torch->version, cards.front().address));
  finding.evidence.push_back(fmt::format("{}: xpu = None", torch->path));
  if (!is_card) finding.severity = Severity::kInfo;
  if (extension) finding.evidence.push_back(extension->path);
  finding.fix.push_back(
      torch_install(look, {"--force-reinstall", "torch"}, "xpu",
                    text("if a project reinstalls PyTorch, it installs the wrong build again: "
                         "configure this package index in the project too")));
}

constexpr auto kFrameworksRules = std::to_array<Rule>({
    {"FW02", Layer::kFramework, Severity::kFatal, true, msgid("a driver too old for a framework"),
     "CTR08 CTR14 FW03 FW04", driver_too_old},
    {"FW03", Layer::kFramework, Severity::kFatal, true,
     msgid("a GPU newer than a framework's kernels"), "FW06", arch_missing_new},
    {"FW04", Layer::kFramework, Severity::kFatal, true,
     msgid("a GPU older than a framework's kernels"), "FW06", arch_missing_old},
    {"FW07", Layer::kFramework, Severity::kFatal, true,
     msgid("a framework built for another vendor's GPUs"), "", wrong_backend},
    {"FW12", Layer::kFramework, Severity::kError, false,
     msgid("a Python version for which no PyTorch supports this GPU"), "", python_unsupported},
    {"XPU01", Layer::kFramework, Severity::kFatal, true, msgid("PyTorch without XPU"), "XPU02",
     torch_without_xpu},
});

}  // namespace

std::span<const Rule> framework_rules() {
  return kFrameworksRules;
}

}  // namespace berth::doctor
