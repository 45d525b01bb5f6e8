#include "doctor/rules/software.hpp"

#include <algorithm>
#include <array>

#include "doctor/knowledge/version.hpp"
#include "doctor/rules/cuda_uses.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/queries.hpp"

namespace berth::doctor {
namespace {

using model::Software;

std::optional<Software::Driver> driver_in(Examination& look) {
  const Fact<std::string>& answer = look.facts.driver.driver_version;
  const Fact<std::string>& module = look.facts.nvidia.module_version;
  const SeenDriver seen = nvidia_driver(look);
  // A libcuda from the compat package changes the CUDA version, but not the driver version.
  const std::string version = answer.value_or(module.value_or(""));
  if (!version.empty() || !seen.cuda.empty()) return Software::Driver{version, seen.cuda};
  // Error 0 means that the driver was not queried. This is not a failure, because the version of
  // the module is enough.
  const bool unknown =
      module.is_unreadable() || (answer.is_unreadable() && answer.why().error_number != 0);
  return unknown && may_concern_nvidia(look.facts) ? std::optional(Software::Driver{})
                                                   : std::nullopt;
}

std::optional<Software::Toolkit> toolkit_in(const Facts& facts) {
  const Fact<Toolkit>& building = facts.toolchain.building;
  if (building)
    return Software::Toolkit{building->version, building->folder, building->folder + "/bin/nvcc"};
  return building.is_unreadable() ? std::optional(Software::Toolkit{}) : std::nullopt;
}

std::optional<Software::Rocm> rocm_in(const Facts& facts) {
  if (facts.rocm.folder || facts.rocm.version)
    return Software::Rocm{facts.rocm.version.value_or(""), facts.rocm.folder.value_or("")};
  return facts.rocm.folder.is_unreadable() ? std::optional(Software::Rocm{}) : std::nullopt;
}

const char* word_of(CudaLibrary::From from) {
  switch (from) {
    case CudaLibrary::From::kVariable:
      return "variable";
    case CudaLibrary::From::kWheel:
      return "wheel";
    case CudaLibrary::From::kConda:
      return "conda";
    case CudaLibrary::From::kSystem:
      break;
  }
  return "system";
}

/// The version of the wheel that contains a library: "9.1.0.70" for nvidia-cudnn-cu12.
std::string version_of_wheel(const PythonFacts& python, const CudaLibrary& library,
                             std::string_view package) {
  for (const Distribution& one : python.distributions.value_or({}))
    if (one.name == package || one.name.starts_with(std::string(package) + "-cu"))
      if (const auto& path = *python.path;
          one.entry < path.size() && library.folder.starts_with(path[one.entry].folder + "/"))
        return one.version;
  return "";
}

/// Libraries whose names start with `begins`: "libcudnn.so" for "libcudnn.so.9" and "libcudnn.so",
/// but not for "libcudnn_ops.so.9".
std::optional<std::vector<Software::Library>> libraries_in(const PythonFacts& python,
                                                           std::string_view begins,
                                                           std::string_view package) {
  if (!python.libraries) {
    if (python.libraries.is_unreadable()) return std::nullopt;
    return std::vector<Software::Library>{};
  }
  std::vector<Software::Library> found;
  for (const CudaLibrary& one : *python.libraries) {
    if (!one.name.starts_with(begins)) continue;
    std::string version = one.version;
    // Usually, "libcudnn.so.9" is a link to a file with the full version in its name. In a wheel,
    // it is a regular file, so use the version of the wheel.
    if (one.from == CudaLibrary::From::kWheel && version_of(version).size() < 2)
      if (const std::string of_package = version_of_wheel(python, one, package);
          !of_package.empty())
        version = of_package;
    const auto same = std::find_if(found.begin(), found.end(), [&](const auto& other) {
      return other.path.starts_with(one.folder + "/") &&
             other.path.find('/', one.folder.size() + 1) == std::string::npos;
    });
    if (same == found.end())
      found.push_back({version, one.path(), word_of(one.from)});
    else if (same->version.size() < version.size())
      *same = {version, one.path(), word_of(one.from)};
  }
  return found;
}

struct KnownFramework {
  const char *word, *name;
  const char* packages;  // names of the distributions that contain the framework
};
constexpr auto kFrameworks = std::to_array<KnownFramework>({
    {"torch", "PyTorch", " torch "},
    {"tensorflow", "TensorFlow",
     " tensorflow tensorflow-gpu tensorflow-cpu tf-nightly tensorflow-rocm intel-tensorflow "},
    {"jax", "JAX", " jax "},
    {"cupy", "CuPy", " cupy "},
    {"onnxruntime", "ONNX Runtime",
     " onnxruntime onnxruntime-gpu onnxruntime-rocm onnxruntime-openvino onnxruntime-directml "},
    {"paddle", "PaddlePaddle", " paddlepaddle paddlepaddle-gpu "},
    {"mxnet", "MXNet", " mxnet "},
    {"numba", "Numba", " numba "},
});

const KnownFramework* framework_of_package(const std::string& package) {
  for (const KnownFramework& one : kFrameworks)
    if (std::string_view(one.packages).find(" " + package + " ") != std::string_view::npos ||
        (package.starts_with("cupy-") && one.word == std::string_view("cupy")) ||
        (package.starts_with("mxnet-cu") && one.word == std::string_view("mxnet")))
      return &one;
  return nullptr;
}

const CondaPackage* conda_build_of(const Facts& facts, const std::string& package) {
  if (!facts.python.conda) return nullptr;
  for (const CondaPackage& one : *facts.python.conda)
    if (one.name == package || (package == "torch" && one.name == "pytorch") ||
        (package == "jax" && one.name == "jaxlib"))
      return &one;
  return nullptr;
}

void tell_torch(const TorchBuild& torch, Software::Framework& framework) {
  framework.version = torch.version;
  framework.path = torch.path;
  if (torch.cuda) framework.cuda = beginning(*torch.cuda);
  // The local version starts with the tag of the build, such as "cu124". In NVIDIA's and users' own
  // builds, it is a revision instead.
  const std::string_view local = local_part(torch.version);
  for (const char* tag : {"cu1", "cpu", "rocm", "xpu"})
    if (local.starts_with(tag)) {
      framework.build = local;
      return;
    }
  if (torch.cuda)
    framework.build = tag_of_cuda(framework.cuda);
  else if (torch.hip)
    framework.build = "rocm" + beginning(*torch.hip);
  else if (torch.xpu)
    framework.build = "xpu";
  else if (torch.cuda.is_absent() && torch.hip.is_absent() && torch.xpu.is_absent())
    framework.build = "cpu";
}

/// Takes the build of JAX from its plugin, or else from the local version of jaxlib.
void tell_jax(const std::vector<Distribution>& all, Software::Framework& framework) {
  for (const Distribution& one : all) {
    const bool is_plugin = one.name.starts_with("jax-") && one.name.ends_with("-plugin");
    if (is_plugin || one.name == "libtpu") framework.build = one.name + " " + one.version;
    if (one.name == "jaxlib" && framework.build.empty()) framework.build = local_part(one.version);
  }
}

void tell_build(Examination& look, const std::vector<CudaUse>& uses, const Distribution& one,
                Software::Framework& framework) {
  if (framework.word == "torch" && look.facts.python.torch) {
    tell_torch(*look.facts.python.torch, framework);
  } else if (framework.word == "jax") {
    tell_jax(look.facts.python.distributions.value_or({}), framework);
  } else {
    framework.build = local_part(one.version);
    if (framework.build.empty() && one.name != framework.word && one.name != "paddlepaddle")
      framework.build = one.name;
  }
  for (const CudaUse& use : uses) {
    const bool is_plugin = framework.word == "jax" && use.package.starts_with("jax-cuda");
    if (framework.cuda.empty() &&
        (is_plugin || use.path == one.path || use.what == framework.name + " " + one.version))
      framework.cuda = use.cuda;
  }
  if (const CondaPackage* conda = conda_build_of(look.facts, one.name)) {
    framework.from = "conda";
    framework.build = conda->build;
  }
}

std::optional<std::vector<Software::Framework>> frameworks_in(Examination& look) {
  const PythonFacts& python = look.facts.python;
  if (python.distributions.is_unreadable()) return std::nullopt;
  std::vector<Software::Framework> found;
  const std::vector<CudaUse> uses = framework_uses(look);
  for (const Distribution& one : python.distributions.value_or({})) {
    const KnownFramework* known = framework_of_package(one.name);
    // If a framework is installed twice, list only the copy that Python imports: the first in
    // sys.path.
    if (known == nullptr || std::any_of(found.begin(), found.end(), [&](const auto& other) {
          return other.word == known->word;
        }))
      continue;
    Software::Framework framework{known->name,
                                  known->word,
                                  one.version,
                                  "",
                                  "",
                                  one.path,
                                  one.path.starts_with("/usr/lib/") ? "system" : "wheel"};
    tell_build(look, uses, one, framework);
    found.push_back(std::move(framework));
  }
  const auto is_torch = [](const auto& one) { return one.word == "torch"; };
  // PyTorch can lack package metadata, as in NVIDIA's images and in source trees.
  if (python.torch && std::none_of(found.begin(), found.end(), is_torch)) {
    Software::Framework framework{"PyTorch", "torch", "", "", "", "", ""};
    tell_torch(*python.torch, framework);
    found.push_back(std::move(framework));
  }
  return found;
}

}  // namespace

Software software_of(const Facts& facts, const Knowledge& knowledge) {
  Examination look(facts, knowledge, Severity::kInfo);
  Software software;
  software.driver = driver_in(look);
  software.toolkit = toolkit_in(facts);
  software.rocm = rocm_in(facts);
  software.cudnn = libraries_in(facts.python, "libcudnn.so", "nvidia-cudnn");
  software.nccl = libraries_in(facts.python, "libnccl.so", "nvidia-nccl");
  software.frameworks = frameworks_in(look);
  return software;
}

}  // namespace berth::doctor
