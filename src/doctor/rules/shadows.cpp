// Rule ENV08: libraries in LD_LIBRARY_PATH that are loaded instead of those that packages contain.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/wheel_search.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// The part of the name of NVIDIA's wheel that contains a library: "cublas" for "libcublas.so.12";
/// "" if unknown.
std::string wheel_of(std::string_view library) {
  struct Row {
    std::string_view begins, wheel;
  };
  constexpr auto kRows = std::to_array<Row>({{"libcublas", "cublas"},
                                             {"libcudart.", "cuda-runtime"},
                                             {"libcufft", "cufft"},
                                             {"libcupti.", "cuda-cupti"},
                                             {"libcurand.", "curand"},
                                             {"libcusolver", "cusolver"},
                                             {"libcusparse.", "cusparse"},
                                             {"libnvJitLink.", "nvjitlink"},
                                             {"libnvrtc", "cuda-nvrtc"}});
  for (const Row& row : kRows)
    if (library.starts_with(row.begins)) return std::string(row.wheel);
  return "";
}

/// The version of the wheel that has a library in site-packages/nvidia/NAME/lib: "12.4.127".
std::string wheel_version(Examination& look, const CudaLibrary& one) {
  const auto* all = look.see(look.facts.python.distributions);
  const auto parts = split(one.folder, '/');
  if (all == nullptr || parts.size() < 3 || parts.back() != "lib") return "";
  std::string name(parts[parts.size() - 2]);
  // Since CUDA 13, all wheels have their libraries in one folder, "nvidia/cu13/lib".
  if (name.starts_with("cu") && to_number(std::string_view(name).substr(2)))
    name = wheel_of(one.name);
  if (name.empty()) return "";
  std::replace(name.begin(), name.end(), '_', '-');
  for (const Distribution& wheel : *all)
    if (wheel.name == "nvidia-" + name || wheel.name.starts_with("nvidia-" + name + "-cu"))
      return wheel.version;
  return "";
}

/// The version in the file's name, or that of the toolkit if the library has the same version
/// numbers as the toolkit.
std::string own_version(const CudaLibrary& one) {
  if (std::count(one.version.begin(), one.version.end(), '.') > 0) return one.version;
  const bool counts_so =
      one.name.starts_with("libnvJitLink.so") || one.name.starts_with("libcudart.so");
  const std::size_t at = one.folder.find("/cuda-");
  return counts_so && at != std::string::npos
             ? beginning(std::string_view(one.folder).substr(at + 6))
             : "";
}

/// The package that would load `name` from LD_LIBRARY_PATH instead of its wheel; "" if there is
/// none. NVIDIA's wheels have a DT_RUNPATH, so the loader searches LD_LIBRARY_PATH first. PyTorch's
/// wheels have a DT_RPATH, which the loader searches before LD_LIBRARY_PATH.
std::string who_takes(Examination& look, std::string_view name) {
  if (name.starts_with("libcudnn")) return "";  // LIB06 reports cuDNN
  if (const auto* all = look.see(look.facts.python.distributions))
    for (const Distribution& one : *all)
      if ((one.name.starts_with("jax-cuda") && one.name.ends_with("-plugin")) ||
          (one.name == "jaxlib" && local_part(one.version).starts_with("cuda")) ||
          one.name == "tensorflow")
        return named(one);
  if (name.starts_with("libnvJitLink.so") && !torch_cuda(look).empty())
    return "PyTorch " + look.facts.python.torch->version;
  return "";
}

/// Reports a oneAPI in LD_LIBRARY_PATH, set by its setvars.sh, that is not the one in the wheels of
/// the installed PyTorch.
void oneapi_shadows(Examination& look) {
  const auto package = look.facts.python.distribution("intel-sycl-rt");
  const Distribution* wheel = look.see(package);
  const auto& torch = look.facts.python.torch;
  if (wheel == nullptr || !torch || !torch->xpu) return;
  constexpr std::string_view kFolder = "/oneapi/compiler/";
  const std::string path = variable_or_empty(look, "LD_LIBRARY_PATH");
  for (const std::string_view folder : split(path, ':')) {
    const std::size_t at = folder.find(kFolder);
    if (at == std::string_view::npos) continue;
    const std::string has = beginning(folder.substr(at + kFolder.size()));
    if (has.empty() || has == beginning(wheel->version)) continue;
    Finding& finding = look.found(
        text("LD_LIBRARY_PATH gives PyTorch the runtime of oneAPI {}, but its wheel contains {}",
             has, wheel->version));
    finding.evidence = {shown_variable(look, "LD_LIBRARY_PATH"), wheel->path};
    finding.fix.push_back(unset_library_path());
    return;
  }
}

/// Reports a cuDNN in LD_LIBRARY_PATH that is loaded instead of PyTorch's newer cuDNN. Up to
/// PyTorch 2.0, the wheel contains cuDNN in torch/lib, which the loader searches after
/// LD_LIBRARY_PATH. PyTorch requires the same major version and at least the same minor version.
void cudnn_shadows_torchs(Examination& look) {
  const auto& torch = look.facts.python.torch;
  const auto* all = look.see(look.facts.python.libraries);
  const std::string cuda = torch_cuda(look);
  if (all == nullptr || cuda.empty() || !look.facts.python.has_pytorchs_own_build() ||
      !is_older(torch->version, "2.1") || seen_gpus(look).empty())
    return;
  const std::string built = look.knowledge.compatibility().cudnn_of_torch(torch->version, cuda);
  if (built.empty()) return;
  const std::string name = "libcudnn.so." + beginning(built, 1);
  const auto own = std::find_if(all->begin(), all->end(), [&](const CudaLibrary& one) {
    return one.name == name && one.folder.ends_with("/torch/lib");
  });
  const auto first = std::find_if(all->begin(), all->end(), [&](const CudaLibrary& one) {
    return one.name == name && one.from == CudaLibrary::From::kVariable;
  });
  if (own == all->end() || first == all->end() || version_of(first->version).size() < 2 ||
      !is_older(beginning(first->version), beginning(built)))
    return;
  Finding& finding =
      look.found(text("LD_LIBRARY_PATH gives {} an older {} than its wheel contains: {}, not {}",
                      "PyTorch " + torch->version, name, first->version, built));
  finding.evidence = {text("library in use: {}", first->path()),
                      text("expected library: {}", own->path()),
                      shown_variable(look, "LD_LIBRARY_PATH")};
  finding.fix.push_back(unset_library_path());
  finding.fix.push_back({"export LD_LIBRARY_PATH=" + pasted(own->folder) + ":\"$LD_LIBRARY_PATH\"",
                         text("or put the wheel's library first")});
}

void path_shadows(Examination& look) {
  oneapi_shadows(look);
  cudnn_shadows_torchs(look);
  const auto* all = look.see(look.facts.python.libraries);
  if (all == nullptr || seen_gpus(look).empty()) return;
  for (const CudaLibrary& first : *all) {
    if (first.from != CudaLibrary::From::kVariable) continue;
    const auto wheel = std::find_if(all->begin(), all->end(), [&](const CudaLibrary& one) {
      return one.from == CudaLibrary::From::kWheel && one.name == first.name;
    });
    if (wheel == all->end()) continue;
    const std::string has = own_version(first), wanted = wheel_version(look, *wheel);
    const std::string who = who_takes(look, first.name);
    // A newer release of the same major version also works.
    const std::size_t parts = std::min<std::size_t>(3, version_of(has).size());
    if (has.empty() || wanted.empty() || who.empty() ||
        !is_older(beginning(has, parts), beginning(wanted, parts)))
      continue;
    Finding& finding =
        look.found(text("LD_LIBRARY_PATH gives {} an older {} than its wheel contains: {}, not {}",
                        who, first.name, has, wanted));
    finding.evidence.push_back(text("library in use: {}", first.path()));
    finding.evidence.push_back(text("expected library: {}", wheel->path()));
    finding.evidence.push_back(shown_variable(look, "LD_LIBRARY_PATH"));
    finding.fix.push_back(unset_library_path());
    finding.fix.push_back(
        {"export LD_LIBRARY_PATH=" + pasted(wheel->folder) + ":\"$LD_LIBRARY_PATH\"",
         text("or put the wheel's library first")});
    return;
  }
}

constexpr auto kShadowsRules = std::to_array<Rule>({
    {"ENV08", Layer::kEnvironment, Severity::kError, true,
     msgid("an older library that LD_LIBRARY_PATH puts before a wheel's"), "LIB04 LIB05 LIB08",
     path_shadows},
});

}  // namespace

std::span<const Rule> shadow_rules() {
  return kShadowsRules;
}

}  // namespace berth::doctor
