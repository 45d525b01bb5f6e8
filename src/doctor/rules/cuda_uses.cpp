#include "doctor/rules/cuda_uses.hpp"

#include <algorithm>
#include <array>

#include "doctor/knowledge/python_text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/builds.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/stated_build.hpp"

namespace berth::doctor {
namespace {

void add_jax_and_cupy(const Distribution& one, std::vector<CudaUse>& uses) {
  if (one.name.starts_with("jax-cuda") && one.name.ends_with("-plugin"))
    uses.push_back(
        {named(one), beginning(one.name.substr(8), 1), one.path, Framework::kJax, one.name});
  if (one.name.starts_with("cupy-cuda")) {
    const std::string tag = one.name.substr(9);  // "12x" for cupy-cuda12x, "118" for cupy-cuda118
    uses.push_back({named(one), tag.ends_with('x') ? beginning(tag, 1) : cuda_of_tag("cu" + tag),
                    one.path, Framework::kCupy, one.name});
  }
}

/// The CUDA version in the name of a package: "13" for cudf-cu13, "13.0" for nvidia-dali-cuda130,
/// "11.2" for mxnet-cu112; "" if there is none.
std::string cuda_in_name(const std::string& name) {
  const std::size_t dash = name.rfind("-cu");
  if (dash == std::string::npos || name.starts_with("jax-") || name.starts_with("cupy-")) return "";
  // Skip NVIDIA's own libraries. The packages that require them are counted instead.
  if (name.starts_with("nvidia-") && !name.starts_with("nvidia-dali")) return "";
  std::string digits = name.substr(dash + 3);
  if (digits.starts_with("da")) digits = digits.substr(2);
  if (digits.size() < 2 || digits.size() > 3 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return "";
  return digits.size() == 2 && digits[0] == '1' ? digits : cuda_of_tag("cu" + digits);
}

/// Whether only GPU programs need this wheel. NCCL is not in the list, because XGBoost requires it
/// even for the CPU.
bool is_for_computing(std::string_view wheel) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"nvidia-cuda-runtime", "nvidia-cublas", "nvidia-cudnn", "nvidia-cuda-nvrtc", "nvidia-cufft",
       "nvidia-cusolver", "nvidia-cusparse"});
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view one) {
    return wheel == one || (wheel.starts_with(one) && wheel.substr(one.size()).starts_with("-cu"));
  });
}

/// The CUDA major version of a wheel: "12" for nvidia-cublas-cu12, "13" for nvidia-cublas
/// 13.0.0.19; "" if unknown.
std::string cuda_of_wheel(Examination& look, const std::string& wheel) {
  if (const std::size_t at = wheel.rfind("-cu"); at != std::string::npos)
    if (std::string major = beginning(wheel.substr(at + 3), 1); !major.empty()) return major;
  // The runtime, cuBLAS and NVRTC have the same version numbers as CUDA. Other libraries do not.
  if (wheel != "nvidia-cuda-runtime" && wheel != "nvidia-cublas" && wheel != "nvidia-cuda-nvrtc")
    return "";
  const auto has = look.facts.python.distribution(wheel);
  return has ? beginning(has->version, 1) : "";
}

/// Whether other functions determine the CUDA version of this package.
bool is_known(std::string_view name) {
  return name == "torch" || name == "tensorflow" || name == "onnxruntime-gpu" ||
         name.starts_with("nvidia-") || name.starts_with("jax") || name.starts_with("cupy");
}

bool names(const Distribution& one, const std::string& wheel) {
  return std::any_of(one.needs.begin(), one.needs.end(),
                     [&](const std::string& row) { return parse_requirement(row).name == wheel; });
}

/// Whether the user requested the extra that the marker names, as in "nvidia-cublas-cu12; extra ==
/// 'cuda'". True if all wheels of the extra are installed and no other package requires them. A
/// single wheel is no proof, because the user may have installed it separately.
bool was_asked_for(Examination& look, const Distribution& one, const std::string& marker) {
  const auto* all = look.see_whole(look.facts.python.distributions);
  if (all == nullptr) return false;
  std::size_t wheels = 0;
  for (const std::string& row : one.needs) {
    const Requirement need = parse_requirement(row);
    if (need.marker != marker) continue;
    if (!look.facts.python.distribution(need.name) ||
        std::any_of(all->begin(), all->end(), [&](const Distribution& other) {
          return other.name != one.name && names(other, need.name);
        }))
      return false;
    ++wheels;
  }
  return wheels > 1;
}

void add_required(Examination& look, const Distribution& one, std::vector<CudaUse>& uses) {
  if (is_known(one.name)) return;
  for (const std::string& row : one.needs) {
    const Requirement need = parse_requirement(row);
    if (!is_for_computing(need.name) || !look.facts.python.distribution(need.name) ||
        (need.marker.find("extra") != std::string::npos && !was_asked_for(look, one, need.marker)))
      continue;
    const std::string cuda = cuda_of_wheel(look, need.name);
    if (cuda.empty()) continue;
    uses.push_back({named(one), cuda, one.path + ": " + need.name});
    return;
  }
}

void add_opened(Examination& look, std::vector<CudaUse>& uses) {
  for (const Opens& row : look.knowledge.compatibility().opens) {
    const auto package = look.facts.python.distribution(row.package);
    // Skip conda's packages: the CUDA versions in the table are those of wheels.
    if (row.cuda.empty() || !package || !in_range(package->version, row.versions) ||
        conda_package(look, row.package) != nullptr)
      continue;
    uses.push_back({named(*package), row.cuda, package->path});
  }
}

/// The CUDA version in a library's name: "12" for libcublas.so.12, "11.0" for libcudart.so.11.0; ""
/// for a library with its own version number.
std::string cuda_of_library(std::string_view name) {
  constexpr std::string_view kRuntime = "libcudart.so.", kBlas = "libcublas.so.";
  if (name.starts_with(kRuntime)) return beginning(name.substr(kRuntime.size()));
  // The file name of cuBLAS contains only the major version, which is not enough before CUDA 11.
  if (name.starts_with(kBlas) && !is_older(name.substr(kBlas.size()), "11"))
    return beginning(name.substr(kBlas.size()), 1);
  return "";
}

/// Adds a library in a wheel's folder, if LD_LIBRARY_PATH contains this folder. Users set this
/// variable for programs that do not search in wheels themselves.
void add_pointed_to(Examination& look, std::vector<CudaUse>& uses) {
  const auto* all = look.see(look.facts.python.libraries);
  if (all == nullptr) return;
  for (const CudaLibrary& one : *all) {
    const std::string cuda = cuda_of_library(one.name);
    if (one.from != CudaLibrary::From::kVariable || cuda.empty() ||
        one.folder.find("-packages/nvidia/") == std::string::npos)
      continue;
    uses.push_back({one.name, cuda, "LD_LIBRARY_PATH: " + one.folder});
    return;
  }
}

/// The CUDA version in the local version of a package: "12.1" for dgl 2.1.0+cu121, llama-cpp-python
/// 0.3.2+cu124, torch-scatter 2.1.2+pt24cu124.
std::string cuda_behind_the_plus(const Distribution& one) {
  // For PyTorch and its companion packages, version.py determines the CUDA version.
  if (one.name == "torch" || one.name == "torchvision" || one.name == "torchaudio") return "";
  return cuda_in_tag(local_part(one.version));
}

/// Adds the CUDA version of a conda environment. All packages in the environment use it.
void add_conda(Examination& look, std::vector<CudaUse>& uses) {
  const CondaPackage* cuda = conda_package(look, "cuda-version");
  if (cuda == nullptr) cuda = conda_package(look, "cudatoolkit");
  const auto* all = look.see(look.facts.python.conda);
  if (cuda == nullptr || all == nullptr) return;
  const auto built = std::find_if(all->begin(), all->end(), [](const CondaPackage& one) {
    return one.build.find("cuda") != std::string::npos || one.build.starts_with("gpu");
  });
  if (built != all->end())
    uses.push_back({built->name + " " + built->version, beginning(cuda->version), cuda->path});
}

void add_onnx(Examination& look, const Distribution& one, std::vector<CudaUse>& uses) {
  if (const PackageBuild* build = stated_build(look, one.name);
      build != nullptr && !build->cuda.empty()) {
    uses.push_back({"ONNX Runtime " + one.version, build->cuda, build->path});
    return;
  }
  // Skip releases for CUDA before 11. They need exactly that CUDA version on the system, and FW15
  // reports if it is missing.
  for (const OnnxRelease& row : look.knowledge.compatibility().onnx)
    if (!row.cuda.empty() && !is_older(row.cuda, "11") && in_range(one.version, row.version))
      uses.push_back({"ONNX Runtime " + one.version, row.cuda, one.path});
}

/// Adds PaddlePaddle and its CUDA version: "11.2" for 2.1.3.post112. Up to 2.4, its wheels on PyPI
/// are for CUDA 10.2.
void add_paddle(Examination& look, const Distribution& one, std::vector<CudaUse>& uses) {
  const PackageBuild* build = stated_build(look, one.name);
  std::string cuda = build == nullptr ? "" : build->cuda;
  const std::size_t post = one.version.rfind(".post");
  // Before 2.0, the digits after ".post" are the major versions of CUDA and cuDNN: 9 and 7 for
  // 1.8.5.post97.
  const std::string tag = post == std::string::npos ? "" : one.version.substr(post + 5);
  if (cuda.empty() && !tag.empty() && is_older(one.version, "2.0"))
    cuda = tag.size() < 2 ? "" : beginning(tag.substr(0, tag.size() - 1), 1) + ".0";
  if (cuda.empty() && post != std::string::npos)
    cuda = cuda_of_tag("cu" + one.version.substr(post + 5));
  if (cuda.empty() && post == std::string::npos && in_range(one.version, "2.0-2.4")) cuda = "10.2";
  if (!cuda.empty()) uses.push_back({named(one), cuda, build == nullptr ? one.path : build->path});
}

}  // namespace

std::vector<CudaUse> framework_uses(Examination& look) {
  std::vector<CudaUse> uses;
  const PythonFacts& python = look.facts.python;
  if (const std::string cuda = torch_cuda(look); !cuda.empty())
    uses.push_back(
        {"PyTorch " + python.torch->version, cuda, python.torch->path, Framework::kTorch, ""});
  const auto* distributions = look.see(python.distributions);
  if (distributions == nullptr) return uses;
  for (const Distribution& one : *distributions) {
    add_jax_and_cupy(one, uses);
    if (const std::string cuda = cuda_in_name(one.name); !cuda.empty())
      uses.push_back({named(one), cuda, one.path});
    if (one.name == "onnxruntime-gpu") add_onnx(look, one, uses);
    if (one.name == "paddlepaddle-gpu") add_paddle(look, one, uses);
  }
  const auto package = cuda_tensorflow(look);
  if (const Distribution* one = look.see(package))
    if (const auto needs = needs_of_tensorflow(look, *one);
        needs && (!is_aarch64(look.facts) || needs->says != one->path))
      uses.push_back({"TensorFlow " + one->version, needs->cuda, needs->says});
  return uses;
}

std::vector<CudaUse> library_uses(Examination& look) {
  std::vector<CudaUse> uses;
  add_opened(look, uses);
  add_conda(look, uses);
  if (const auto* distributions = look.see(look.facts.python.distributions))
    for (const Distribution& one : *distributions) {
      add_required(look, one, uses);
      if (const std::string cuda = cuda_behind_the_plus(one); !cuda.empty())
        uses.push_back({named(one), cuda, one.path});
    }
  if (const auto* links = look.see(look.facts.imports.links))
    for (const LinkedLibrary& one : *links)
      if (const std::string cuda = cuda_of_library(one.name); !cuda.empty())
        uses.push_back({one.needed_by, cuda, one.needed_by + " → " + one.name});
  add_pointed_to(look, uses);
  return uses;
}

}  // namespace berth::doctor
