#include "doctor/rules/cuda_compilers.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/stated_build.hpp"
#include "doctor/rules/wheel_search.hpp"

namespace berth::doctor {
namespace {

/// The package with NVRTC in a conda environment: cudatoolkit up to CUDA 11, cuda-nvrtc since CUDA
/// 12.
const CondaPackage* compiler_of_conda(Examination& look) {
  const CondaPackage* one = conda_package(look, "cuda-nvrtc");
  return one != nullptr ? one : conda_package(look, "cudatoolkit");
}

struct Compiler {
  std::string who;           // the package that compiles: "pycuda 2024.1"
  std::string cuda;          // "11.0"
  std::string path;          // the file that shows the compiler's version
  bool takes_newer = false;  // if the GPU is too new, the package generates PTX for an older GPU
  bool may_be_idle = false;  // the package is often used only for the CPU
};

std::optional<Compiler> compiler_by_toolkit(Examination& look, const char* name, bool takes_newer) {
  const auto package = look.facts.python.distribution(name);
  const Distribution* one = look.see(package);
  if (one == nullptr) return std::nullopt;
  if (look.see(look.facts.python.conda) != nullptr) {
    const CondaPackage* conda = compiler_of_conda(look);
    if (conda_package(look, name) != nullptr && conda != nullptr)
      return Compiler{named(*one), conda->version, conda->path, takes_newer};
  }
  const Toolkit* toolkit = look.see(look.facts.toolchain.building);
  if (toolkit == nullptr || version_of(toolkit->version).size() < 2) return std::nullopt;
  return Compiler{named(*one), toolkit->version, toolkit->folder, takes_newer};
}

std::optional<Compiler> compiler_of_numba(Examination& look) {
  const auto newer = look.facts.python.distribution("numba-cuda");
  const auto older = look.facts.python.distribution("numba");
  const Distribution* numba = look.see(newer) != nullptr ? look.see(newer) : look.see(older);
  const auto* toolkits = look.see_whole(look.facts.toolchain.nvvm);
  if (numba == nullptr || toolkits == nullptr) return std::nullopt;
  const bool knows_wheels = numba->name == "numba-cuda" && !is_older(numba->version, "0.15");
  const auto found = std::find_if(toolkits->begin(), toolkits->end(), [&](const Toolkit& one) {
    return knows_wheels || one.from != Toolkit::From::kWheel;
  });
  if (found == toolkits->end() || version_of(found->version).size() < 2) return std::nullopt;
  return Compiler{named(*numba), found->version, found->folder, true, numba->name == "numba"};
}

/// Reports that the compiler cannot generate code for the GPU. `newer` is true if the GPU is too
/// new, and false if it is too old.
void found_without(Examination& look, const Compiler& compiler, const SeenGpu& gpu,
                   const ArchToolkits& bounds, bool newer) {
  const std::string cuda = beginning(compiler.cuda);
  Finding& finding = look.found(
      text("{} compiles with CUDA {}, which does not support the {} (compute capability {})",
           compiler.who, cuda, gpu.name, gpu.capability));
  if (compiler.may_be_idle) finding.severity = Severity::kInfo;
  finding.evidence.push_back(fmt::format("{}: CUDA {}", compiler.path, compiler.cuda));
  finding.evidence.push_back(newer ? text("CUDA {} is the first release that compiles for {}",
                                          bounds.first, bounds.capability)
                                   : text("CUDA {} is the last release that compiles for {}",
                                          bounds.last, bounds.capability));
  finding.fix.push_back(
      {"",
       newer
           ? text("install CUDA toolkit {} or newer next to the other one and set CUDA_HOME to it",
                  bounds.first)
           : text("use CUDA {} or older: a build for that CUDA, or an older toolkit with CUDA_HOME "
                  "set to it",
                  bounds.last)});
}

}  // namespace

void compiler_without_gpu(Examination& look, bool newer) {
  const auto gpus = seen_gpus(look);
  if (gpus.empty() || look.facts.machine.is_jetson) return;
  std::vector<Compiler> compilers;
  const auto add = [&](std::optional<Compiler> one) {
    if (one) compilers.push_back(*std::move(one));
  };
  add(compiler_by_toolkit(look, "cupy", true));
  add(compiler_by_toolkit(look, "pycuda", false));
  if (!torch_cuda(look).empty()) add(compiler_by_toolkit(look, "deepspeed", false));
  add(compiler_of_numba(look));
  for (const Compiler& one : compilers)
    for (const SeenGpu& gpu : gpus) {
      const ArchToolkits* bounds = gpu.capability.empty()
                                       ? nullptr
                                       : look.knowledge.compatibility().toolkits_of(gpu.capability);
      if (bounds == nullptr || (newer && one.takes_newer)) continue;
      const std::string cuda = beginning(one.cuda);
      const bool lacks = newer ? !bounds->first.empty() && is_older(cuda, bounds->first)
                               : !bounds->last.empty() && is_older(bounds->last, cuda);
      if (lacks) return found_without(look, one, gpu, *bounds, newer);
    }
}

namespace {

/// The NVRTC that a package loads: from conda if the package is from conda, otherwise from a wheel.
struct Beside {
  std::string cuda;  // the CUDA version of the NVRTC: "11.8"; "" if there is no NVRTC
  std::string path;
  std::string wish;  // conda's package to install instead; "" for a wheel
};

Beside compiler_beside(Examination& look, bool of_conda) {
  if (const CondaPackage* one = of_conda ? compiler_of_conda(look) : nullptr)
    return {beginning(one->version), one->path,
            one->name == "cudatoolkit" ? "cudatoolkit" : "cuda-version"};
  const auto* all = look.see(look.facts.python.distributions);
  if (all == nullptr) return {};
  const auto wheel = std::find_if(all->begin(), all->end(), [](const Distribution& one) {
    return one.name.starts_with("nvidia-cuda-nvrtc");
  });
  return wheel == all->end() ? Beside{} : Beside{beginning(wheel->version), wheel->path, ""};
}

void found_newer_ptx(Examination& look, const PtxUser& user, const std::string& version,
                     const Beside& compiler, const SeenDriver& driver) {
  Finding& finding = look.found(
      text("the driver accepts PTX of CUDA up to {}, but {} {} compiles with CUDA {}: error 222",
           driver.cuda, user.package, version, compiler.cuda));
  finding.evidence.push_back(driver.version.empty()
                                 ? text("the driver supports CUDA up to {}", driver.cuda)
                                 : text("the driver is version {} and supports CUDA up to {}",
                                        driver.version, driver.cuda));
  finding.evidence.push_back(fmt::format("{}: CUDA {}", compiler.path, compiler.cuda));
  finding.evidence.push_back(user.source);
  if (!compiler.wish.empty())
    finding.fix.push_back(
        {fmt::format("conda install -p {} '{}={}'", pasted(look.facts.python.prefix), compiler.wish,
                     driver.cuda),
         text("installs the compiler of the driver's CUDA version; the toolkit in /usr/local does "
              "not matter")});
  const std::string made = look.knowledge.compatibility().driver_made_for(compiler.cuda);
  if (!made.empty())
    finding.fix.push_back({"", text("update the driver to {} or newer (for a container, on the "
                                    "host); this needs root and a reboot",
                                    made)});
}

/// The version of a package from conda or pip; "" if it is not installed.
std::string version_here(Examination& look, const std::string& package) {
  if (const CondaPackage* conda = conda_package(look, package)) return conda->version;
  const auto wheel = look.facts.python.distribution(package);
  const Distribution* one = look.see(wheel);
  return one == nullptr ? "" : one->version;
}

}  // namespace

void ptx_newer_than_driver(Examination& look) {
  const SeenDriver driver = nvidia_driver(look);
  if (driver.cuda.empty() || seen_gpus(look).empty()) return;
  for (const PtxUser& row : look.knowledge.compatibility().ptx_users) {
    const std::string version = version_here(look, row.package);
    if (version.empty() || !in_range(version, row.versions)) continue;
    const Beside compiler = compiler_beside(look, conda_package(look, row.package) != nullptr);
    // CUDA 12.6 has the same PTX version as 12.5, so a driver for 12.5 accepts its PTX.
    const bool same_ptx = compiler.cuda == "12.6" && driver.cuda == "12.5";
    if (compiler.cuda.empty() || same_ptx || !is_older(driver.cuda, compiler.cuda)) continue;
    return found_newer_ptx(look, row, version, compiler, driver);
  }
}

void older_ptxas_first(Examination& look) {
  // In these releases, XLA uses the first ptxas in PATH, and gives it PTX of CUDA 12.4.
  constexpr std::string_view kReleases = "0.4.31-0.5", kWritten = "12.4";
  const Toolkit* first = look.see(look.facts.toolchain.ptxas);
  const auto* all = look.see(look.facts.python.distributions);
  if (first == nullptr || all == nullptr || version_of(first->version).size() < 2 ||
      !is_older(beginning(first->version), kWritten) || seen_gpus(look).empty())
    return;
  const Distribution *jax = nullptr, *wheel = nullptr;
  for (const Distribution& one : *all) {
    if (one.name == "jax-cuda12-plugin" || (jax == nullptr && one.name == "jax-cuda12-pjrt"))
      jax = &one;
    if (one.name == "nvidia-cuda-nvcc-cu12") wheel = &one;
  }
  if (jax == nullptr || wheel == nullptr || !in_range(jax->version, kReleases) ||
      is_older(wheel->version, kWritten))
    return;
  Finding& finding =
      look.found(text("PATH has the ptxas of CUDA {}, which replaces the ptxas of JAX's wheels "
                      "({}) and rejects the PTX of {}",
                      beginning(first->version), beginning(wheel->version), named(*jax)));
  finding.severity = Severity::kError;
  finding.evidence = {fmt::format("{}/bin/ptxas: CUDA {}", first->folder, first->version),
                      wheel->path, "https://github.com/jax-ml/jax/issues/25718"};
  finding.fix.push_back(
      {fmt::format("export PATH=$(echo \"$PATH\" | tr ':' '\\n' | grep -vx {} | paste -sd:)",
                   pasted(first->folder + "/bin")),
       text("use this only for programs with JAX: JAX then uses the ptxas of its wheels")});
  finding.fix.push_back(
      {"", text("or put a CUDA toolkit of {} or newer in PATH", beginning(wheel->version))});
}

void no_ptxas(Examination& look) {
  // In this release, Keras compiles its optimizers with XLA, which needs ptxas. Other releases let
  // the driver compile the PTX.
  constexpr std::string_view kReleases = "2.11";
  const auto package = look.facts.python.distribution("tensorflow");
  const Distribution* tensorflow = look.see(package);
  if (tensorflow == nullptr || !in_range(tensorflow->version, kReleases) ||
      !look.missing(look.facts.toolchain.ptxas) || seen_gpus(look).empty())
    return;
  const auto* others = look.see_whole(look.facts.toolchain.other_ptxas);
  if (others == nullptr || !others->empty() || libraries_named(look, "libcudart.so").empty())
    return;
  Finding& finding =
      look.found(text("{} finds no ptxas, which XLA needs to compile", named(*tensorflow)));
  finding.evidence = {tensorflow->path,
                      text("not found in PATH, in /usr/local/cuda* or in the folder of XLA_FLAGS; "
                           "conda's cudatoolkit has none"),
                      "https://github.com/tensorflow/tensorflow/issues/58681"};
  if (look.facts.python.is_conda)
    finding.fix.push_back(
        {fmt::format("conda install -p {} -c nvidia cuda-nvcc=11.3",
                     pasted(look.facts.python.prefix)),
         text("this package contains ptxas; conda-forge's cudatoolkit-dev also contains it")});
  finding.fix.push_back({install_command(look.facts.python, {"tensorflow==2.10.*"}),
                         text("this release trains without ptxas")});
}

}  // namespace berth::doctor
