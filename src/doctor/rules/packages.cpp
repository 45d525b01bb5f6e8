// Rules FW01, FW05, FW10, FW13, FW14, FW17, FW18: incompatible packages, and builds for the CPU on
// a machine with a GPU.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/knowledge/python_text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/builds.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/reinstall.hpp"
#include "doctor/rules/stated_build.hpp"
#include "doctor/rules/wheel_search.hpp"

namespace berth::doctor {
namespace {

std::string_view base_of(std::string_view version) {
  return version.substr(0, version.find('+'));
}

/// The installed PyTorch, if it has no GPU support and is not from conda; otherwise nullptr. FW13
/// checks conda's builds.
const TorchBuild* cpu_torch(Examination& look) {
  const TorchBuild* torch = look.see(look.facts.python.torch);
  if (torch == nullptr || look.facts.python.conda.is_unreadable() ||
      conda_package(look, "pytorch") != nullptr)
    return nullptr;
  const bool without =
      look.missing(torch->cuda) && torch->hip.is_absent() && torch->xpu.is_absent();
  return without ? torch : nullptr;
}

std::string gpu_names(const std::vector<SeenGpu>& gpus) {
  return gpus.size() == 1 ? gpus.front().name
                          : fmt::format("{} × {}", gpus.size(), gpus.front().name);
}

void cpu_finding(Examination& look, const TorchBuild& torch, const std::vector<SeenGpu>& gpus) {
  Finding& finding = look.found(text("PyTorch {} is built without CUDA, so it does not see the {}",
                                     torch.version, gpu_names(gpus)));
  finding.evidence.push_back(fmt::format("{}: cuda = None", torch.path));
  // Keep the release if possible, because other packages may depend on it.
  if (!add_reinstall(look, finding, wish_of(look, Framework::kTorch, torch.version)))
    finding.fix.push_back(
        {"", text("no release known to Berth has a wheel for this GPU, driver and "
                  "Python: berth env --format pip --framework torch says what "
                  "would have to change")});
}

void torch_without_cuda(Examination& look) {
  const TorchBuild* torch = cpu_torch(look);
  if (torch == nullptr || is_aarch64(look.facts)) return;
  const auto gpus = seen_gpus(look);
  if (!gpus.empty()) return cpu_finding(look, *torch, gpus);
  if (!has_rocm_gpu(look)) return;
  Finding& finding = look.found(
      text("PyTorch {} is built without ROCm, so it does not see the AMD GPU", torch->version));
  finding.evidence.push_back(fmt::format("{}: hip = None", torch->path));
  if (const auto rocm = look.knowledge.compatibility().newest_rocm(); !rocm.empty())
    finding.fix.push_back(torch_install(look, {"--force-reinstall", "torch"}, "rocm" + rocm, ""));
}

void torch_without_cuda_on_arm(Examination& look) {
  const TorchBuild* torch = cpu_torch(look);
  if (torch == nullptr || !is_aarch64(look.facts)) return;
  const auto gpus = seen_gpus(look);
  if (gpus.empty()) return;
  cpu_finding(look, *torch, gpus);
  look.findings().back().evidence.push_back(
      text("this machine is aarch64, and PyPI's PyTorch wheels for aarch64 have no CUDA"));
}

/// Whether the build name shows a CPU build: "cpu_mkl_py312_…"; for Anaconda's TensorFlow also
/// "mkl_py310…" and "eigen_py310…".
bool is_for_processor(const CondaPackage& one) {
  // conda-forge's gromacs has the build names "nompi_h…" for the CPU and "nompi_cuda_h…" for the
  // GPU.
  if (one.name == "gromacs" && one.build.starts_with("nompi_"))
    return one.build.find("cuda") == std::string::npos;
  return one.build.find("cpu") != std::string::npos ||
         (one.name == "tensorflow" &&
          (one.build.starts_with("eigen_") || one.build.starts_with("mkl_")));
}

bool is_main(std::string_view name) {
  return name == "pytorch" || name == "tensorflow" || name == "jaxlib";
}

/// An installed conda package without files that makes the solver choose CPU builds, also in later
/// commands: "cpuonly", or "pytorch-mutex" with build "cpu". nullptr if there is none.
const CondaPackage* cpu_pin(Examination& look) {
  const CondaPackage* mutex = conda_package(look, "pytorch-mutex");
  if (const CondaPackage* pin = conda_package(look, "cpuonly")) return pin;
  return mutex != nullptr && mutex->build == "cpu" ? mutex : nullptr;
}

void conda_without_cuda(Examination& look) {
  for (const char* name : {"pytorch", "tensorflow", "jaxlib", "xgboost", "libxgboost", "lightgbm",
                           "onnxruntime", "faiss", "lammps", "gromacs", "cp2k", "openmm"}) {
    const CondaPackage* package = conda_package(look, name);
    if (package == nullptr) continue;
    // Some packages were built wrongly: the build's name contains "cuda", but the build has no GPU
    // support.
    const PackageBuild* build = stated_build(look, name);
    const bool says_none = build != nullptr && !build->for_cuda.value_or(true);
    if (!is_for_processor(*package) && !says_none) continue;
    // Skip conda's PyTorch if pip has replaced it with a CUDA build.
    const TorchBuild* torch = look.see(look.facts.python.torch);
    if (std::string_view(name) == "pytorch" && torch != nullptr && torch->cuda) continue;
    const auto gpus = seen_gpus(look);
    if (gpus.empty()) return;
    // PyTorch can use the GPU, so the CPU build of this package may be intended.
    const bool beside = !is_main(name) && !torch_cuda(look).empty();
    Finding& finding =
        look.found(text("conda has installed the CPU build of {} {}, so it does not "
                        "see the {}",
                        name, package->version, gpu_names(gpus)));
    if (beside) finding.severity = Severity::kInfo;
    finding.evidence.push_back(fmt::format("{}: build {}", package->path, package->build));
    if (says_none) finding.evidence.push_back(text("{}: not built with CUDA", build->path));
    if (says_none && !is_for_processor(*package)) {
      finding.fix.push_back({fmt::format("conda install -p {} '{}!={}=*cuda*'",
                                         pasted(look.facts.python.prefix), name, package->version),
                             text("the name of this build says CUDA, but the build contains no "
                                  "CUDA code: use another build or release")});
      continue;
    }
    const CondaPackage* pin = std::string_view(name) == "pytorch" ? cpu_pin(look) : nullptr;
    const std::string prefix = pasted(look.facts.python.prefix);
    const std::string install = fmt::format("conda install -p {} '{}=*=*cuda*'", prefix, name);
    if (pin != nullptr) {
      finding.evidence.push_back(pin->path);
      finding.fix.push_back(
          {fmt::format("conda remove -p {} {}\n{}", prefix, pin->name, install),
           text("as long as {} is installed, conda only chooses CPU builds", pin->name)});
      continue;
    }
    finding.fix.push_back({install, text("requests the CUDA build explicitly, so that the solver "
                                         "cannot choose the CPU build")});
  }
}

/// The build tag in a wheel's version: "cu121", "cpu" or "rocm6.2"; "" if there is no such tag.
std::string build_tag(std::string_view version) {
  const std::string_view tag = local_part(version);
  return tag.starts_with("cu") || tag == "cpu" || tag.starts_with("rocm") ? std::string(tag) : "";
}

/// The PyTorch release that belongs to a torchvision or torchaudio, computed from the release
/// number: "2.8" for torchvision 0.23. Returns "" if it is unknown, as for torchaudio 2.11 and
/// newer.
std::string torch_by_number(std::string_view name, std::string_view version) {
  const Version parts = version_of(version);
  if (parts.size() < 2) return "";
  const bool vision = name == "torchvision";
  if (!vision && parts[0] == 2) return parts[1] < 11 ? fmt::format("2.{}", parts[1]) : "";
  if (parts[0] != 0 || parts[1] < 3) return "";
  if (vision && parts[1] >= 15) return fmt::format("2.{}", parts[1] - 15);
  return parts[1] > 14 ? "" : fmt::format("1.{}", vision ? parts[1] - 1 : parts[1]);
}

void torch_pair(Examination& look) {
  const TorchBuild* torch = look.see(look.facts.python.torch);
  if (torch == nullptr) return;
  std::string torch_tag = build_tag(torch->version);
  if (torch_tag.empty() && torch->cuda) torch_tag = tag_of_cuda(*torch->cuda);
  for (const char* name : {"torchvision", "torchaudio"}) {
    const auto other = look.facts.python.distribution(name);
    const Distribution* package = look.see(other);
    if (package == nullptr) continue;
    std::string pin;
    for (const std::string& row : package->needs)
      if (const Requirement need = parse_requirement(row); need.name == "torch") pin = need.exact;
    // If the package states no requirements, compares release numbers. This works only for
    // PyTorch's own builds.
    const bool by_number = pin.empty() && package->needs.empty() &&
                           look.facts.python.has_pytorchs_own_build() &&
                           package->version.find('a') == std::string::npos &&
                           package->version.find("dev") == std::string::npos;
    if (by_number) pin = torch_by_number(name, package->version);
    const bool other_release =
        !pin.empty() && pin.find('*') == std::string::npos &&
        (by_number ? pin != beginning(torch->version) : base_of(pin) != base_of(torch->version));
    const std::string tag = build_tag(package->version);
    const bool other_build = !tag.empty() && !torch_tag.empty() && tag != torch_tag;
    if (!other_release && !other_build) continue;
    Finding& finding = look.found(text("{} {} was not built for the installed PyTorch {}", name,
                                       package->version, torch->version));
    finding.evidence.push_back(package->path);
    if (other_release)
      finding.evidence.push_back(by_number ? text("this version was built for PyTorch {}", pin)
                                           : text("the package requires torch=={}", pin));
    if (other_build)
      finding.evidence.push_back(
          text("the package was built for {}, but PyTorch was built for {}", tag, torch_tag));
    finding.evidence.push_back(torch->path);
    finding.fix.push_back(torch_install(
        look, {"--force-reinstall", "torch==" + std::string(base_of(torch->version)), name},
        torch_tag, text("installs compatible releases of PyTorch and this package")));
    return;
  }
}

bool is_gpu_jax(Examination& look) {
  const auto* distributions = look.see(look.facts.python.distributions);
  const CondaPackage* conda = conda_package(look, "jaxlib");
  if (conda != nullptr && conda->build.find("cuda") != std::string::npos) return true;
  return distributions != nullptr &&
         std::any_of(distributions->begin(), distributions->end(), [](const Distribution& one) {
           return (one.name.starts_with("jax-") && one.name.ends_with("-plugin")) ||
                  one.name == "jax-metal" || one.name == "libtpu" ||
                  (one.name == "jaxlib" && local_part(one.version).starts_with("cuda"));
         });
}

/// The severity is lower if PyTorch can use the GPU, because the user may want JAX on the CPU.
Severity severity_beside_torch(Examination& look) {
  const auto& torch = look.facts.python.torch;
  return torch && torch->cuda ? Severity::kWarning : Severity::kFatal;
}

/// Reports a JAX without the ROCm plugin on a machine with an AMD GPU.
void jax_without_rocm(Examination& look, const Distribution& jaxlib) {
  if (is_gpu_jax(look) || !has_rocm_gpu(look) ||
      local_part(jaxlib.version).find("rocm") != std::string_view::npos)
    return;
  Finding& finding = look.found(text(
      "JAX {} has no ROCm plugin, so it runs on the CPU instead of the AMD GPU", jaxlib.version));
  if (look.facts.python.torch && look.facts.python.torch->hip)
    finding.severity = Severity::kWarning;
  finding.evidence.push_back(jaxlib.path);
  finding.fix.push_back(
      {"", text("install jax-rocm7-plugin and jax-rocm7-pjrt of the same release, "
                "as https://rocm.docs.amd.com says")});
}

void jax_fix(Examination& look, Finding& finding) {
  // If PyTorch is for CUDA 12, do not suggest the JAX plugin for CUDA 13, which would load a second
  // set of libraries.
  const auto jaxlib = look.facts.python.distribution("jaxlib");
  Wish wish = wish_of(look, Framework::kJax, jaxlib ? jaxlib->version : "");
  if (torch_cuda(look).starts_with("12") && is_older("12.9", wish.driver_cuda))
    wish.driver_cuda = "12.9";
  add_reinstall(look, finding, wish);
}

void jax_plugin(Examination& look) {
  const auto jax = look.facts.python.distribution("jaxlib");
  const Distribution* jaxlib = look.see(jax);
  // Skip jaxlib if it is, or may be, from conda, because conda's jaxlib includes the plugin.
  if (jaxlib == nullptr || conda_package(look, "jaxlib") != nullptr ||
      look.facts.python.conda.is_unreadable())
    return;
  // JAX's plugins have wheels for aarch64 servers (https://github.com/jax-ml/jax/issues/23824), but
  // not for Jetson GPUs.
  if (is_aarch64(look.facts) &&
      (look.facts.machine.is_jetson || is_older(jaxlib->version, "0.4.26")))
    return;
  const auto gpus = seen_gpus(look);
  if (gpus.empty()) return jax_without_rocm(look, *jaxlib);
  if (!is_gpu_jax(look)) {
    Finding& finding =
        look.found(text("JAX {} has no CUDA plugin, so it runs on the CPU instead of the {}",
                        jaxlib->version, gpu_names(gpus)));
    finding.severity = severity_beside_torch(look);
    finding.evidence.push_back(
        text("there is {}, but no jax-cuda12-plugin or jax-cuda13-plugin", jaxlib->path));
    return jax_fix(look, finding);
  }
  for (const char* cuda : {"12", "13"}) {
    for (const char* part : {"plugin", "pjrt"}) {
      const auto other = look.facts.python.distribution(fmt::format("jax-cuda{}-{}", cuda, part));
      if (!other || beginning(other->version, 3) == beginning(jaxlib->version, 3)) continue;
      Finding& finding =
          look.found(text("{} and jaxlib {} are incompatible releases, so JAX runs on the CPU",
                          named(*other), jaxlib->version));
      finding.evidence = {other->path, jaxlib->path};
      return jax_fix(look, finding);
    }
  }
  for (const KnownBad& row : look.knowledge.compatibility().known_bad) {
    const auto package = look.facts.python.distribution(row.package);
    if (row.package != "jax" || !package || package->version != row.version) continue;
    Finding& finding = look.found(
        text("{} is a release with a known fault: {}", named(*package), tr(row.what.c_str())));
    finding.evidence = {package->path, row.source};
    finding.fix.push_back({install_command(look.facts.python, {row.use}), ""});
  }
}

void bitsandbytes_binary(Examination& look) {
  const auto* binaries = look.see(look.facts.python.bitsandbytes);
  const std::string cuda = torch_cuda(look);
  if (binaries == nullptr || cuda.empty() || seen_gpus(look).empty() ||
      look.facts.process.variable("BNB_CUDA_VERSION"))
    return;
  const std::string wanted = "libbitsandbytes_cuda" + tag_of_cuda(cuda).substr(2);
  if (std::any_of(binaries->begin(), binaries->end(),
                  [&](const std::string& one) { return one.starts_with(wanted); }))
    return;
  Finding& finding = look.found(
      text("bitsandbytes has no binary for CUDA {}, which PyTorch was built with", cuda));
  finding.evidence.push_back(text("bitsandbytes would need {}.so; the existing files are {}",
                                  wanted, fmt::format("{}", fmt::join(*binaries, ", "))));
  finding.fix.push_back({install_command(look.facts.python, {"-U", "bitsandbytes"}), ""});
}

/// Reports a bitsandbytes before 0.38 that finds no file named exactly libcudart.so. PyTorch's
/// wheels and distributions have libcudart.so.11.0 instead.
void bitsandbytes_runtime(Examination& look) {
  const auto package = look.facts.python.distribution("bitsandbytes");
  const Distribution* one = look.see(package);
  if (one == nullptr || !in_range(one->version, "0.34-0.37") || torch_cuda(look).empty() ||
      seen_gpus(look).empty() || !look.missing(look.facts.python.bitsandbytes_runtime))
    return;
  Finding& finding =
      look.found(text("bitsandbytes {} finds no file named {}, so it uses its CPU library",
                      one->version, "libcudart.so"));
  finding.evidence = {one->path,
                      "https://github.com/bitsandbytes-foundation/bitsandbytes/issues/62"};
  for (const CudaLibrary& other : libraries_named(look, "libcudart.so.")) {
    finding.evidence.push_back(text("found {}", other.folder + "/" + other.name));
    if (other.from != CudaLibrary::From::kWheel) continue;
    const model::Fix named_folder = name_in_library_path({other.folder});
    finding.fix.push_back({"ln -s " + pasted(other.name) + " " +
                               pasted(other.folder + "/libcudart.so") + "\n" + named_folder.command,
                           text("makes bitsandbytes find the runtime of PyTorch's own wheels")});
    break;
  }
  finding.fix.push_back({install_command(look.facts.python, {"bitsandbytes>=0.43"}),
                         text("this release uses the CUDA runtime that PyTorch has loaded")});
}

void bitsandbytes_unfit(Examination& look) {
  bitsandbytes_binary(look);
  if (look.findings().empty()) bitsandbytes_runtime(look);
}

/// Whether this package is a framework. If two copies are installed, it matters which one is
/// imported.
bool is_framework(std::string_view name) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"torch", "torchvision", "torchaudio", "tensorflow", "jax", "jaxlib", "triton"});
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

void shadowed(Examination& look, const std::vector<Distribution>& all, const Distribution& own) {
  const auto& path = *look.facts.python.path;
  for (const Distribution& other : all) {
    if (other.name != own.name || other.entry >= own.entry || other.version == own.version)
      continue;
    const PathEntry& entry = path[other.entry];
    // Skip two folders of one interpreter, such as /usr/local and /usr, because their order is
    // intended.
    if (entry.origin == PathOrigin::kOwn) continue;
    Finding& finding = look.found(text("{} outside the environment hides the environment's own {}",
                                       named(other), named(own)));
    finding.evidence = {other.path, own.path};
    if (entry.origin == PathOrigin::kPythonPath) {
      finding.fix.push_back({"unset PYTHONPATH", text("PYTHONPATH contains {}", entry.folder)});
    } else if (entry.origin == PathOrigin::kUser) {
      finding.fix.push_back(
          {"export PYTHONNOUSERSITE=1", text("makes Python ignore {}", entry.folder)});
      finding.fix.push_back({"PYTHONNOUSERSITE= pip uninstall " + pasted(other.name),
                             text("permanently removes the copy, for all your environments")});
    } else {
      finding.fix.push_back({"", text("a .pth file adds {} to Python's search path: remove the "
                                      "line with this folder from the file",
                                      entry.folder)});
    }
    return;
  }
}

void shadow_install(Examination& look) {
  const auto* all = look.see(look.facts.python.distributions);
  if (all == nullptr || !look.facts.python.path) return;
  for (const Distribution& own : *all)
    if (is_framework(own.name) && (*look.facts.python.path)[own.entry].origin == PathOrigin::kOwn)
      shadowed(look, *all, own);
  const TorchBuild* torch = look.see(look.facts.python.torch);
  if (torch == nullptr || !look.findings().empty()) return;
  std::string listed;
  for (const Distribution& one : *all) {
    if (one.name != "torch" || one.entry != torch->entry) continue;
    if (base_of(one.version) == base_of(torch->version)) return;
    listed = one.path;
  }
  if (listed.empty()) return;
  Finding& finding =
      look.found(text("two installations of PyTorch overlap: {} is imported", torch->version));
  finding.evidence = {torch->path, listed};
  finding.fix.push_back(
      {install_command(look.facts.python, {"--force-reinstall", "torch"}),
       text("first run pip uninstall torch until no PyTorch is left (usually twice)")});
}

constexpr auto kPackagesRules = std::to_array<Rule>({
    {"FW18", Layer::kFramework, Severity::kError, true,
     msgid("a second copy of a framework, imported instead of the one in the environment"),
     "FW01 FW02 FW03 FW04 FW05 FW06 LIB08", shadow_install},
    {"FW13", Layer::kFramework, Severity::kFatal, true, msgid("conda's CPU build of a framework"),
     "FW05", conda_without_cuda},
    {"FW14", Layer::kFramework, Severity::kFatal, true, msgid("PyPI's CPU-only PyTorch on aarch64"),
     "FW05 FW17", torch_without_cuda_on_arm},
    {"FW01", Layer::kFramework, Severity::kFatal, true, msgid("PyTorch without CUDA"), "FW05 FW17",
     torch_without_cuda},
    {"FW05", Layer::kFramework, Severity::kFatal, true,
     msgid("torchvision or torchaudio for another PyTorch"), "", torch_pair},
    {"FW10", Layer::kFramework, Severity::kFatal, true, msgid("JAX without a suitable CUDA plugin"),
     "LIB07 LIB10", jax_plugin},
    {"FW17", Layer::kFramework, Severity::kError, true,
     msgid("bitsandbytes without a binary for this CUDA"), "", bitsandbytes_unfit},
});

}  // namespace

std::span<const Rule> package_rules() {
  return kPackagesRules;
}

}  // namespace berth::doctor
