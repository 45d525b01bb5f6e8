#include "doctor/rules/stated_build.hpp"

#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"

namespace berth::doctor {

const PackageBuild* stated_build(Examination& look, std::string_view package) {
  const auto* all = look.see(look.facts.builds);
  if (all == nullptr) return nullptr;
  for (const PackageBuild& one : *all)
    if (one.package == package) return &one;
  return nullptr;
}

Fact<Distribution> cuda_tensorflow(Examination& look) {
  const PackageBuild* build = stated_build(look, "tensorflow");
  if (build != nullptr && !build->for_cuda.value_or(true)) return {};
  const bool says_so = build != nullptr && build->for_cuda.value_or(false);
  auto plain = look.facts.python.distribution("tensorflow");
  if (plain.is_unreadable()) return plain;
  // On PyPI, "tensorflow" before 2.1 is a CPU build. Distributions and hosting services have other
  // builds, whose build information shows whether they support GPUs.
  if (plain && (says_so || !is_older(plain->version, "2.1") || in_range(plain->version, "1.15")))
    return plain;
  return look.facts.python.distribution("tensorflow-gpu");
}

std::optional<CudaNeeds> needs_of_tensorflow(Examination& look, const Distribution& tensorflow) {
  const PackageBuild* build = stated_build(look, "tensorflow");
  if (build != nullptr && !build->cuda.empty())
    return CudaNeeds{build->cuda, build->cudnn, build->path};
  if (conda_package(look, "tensorflow") != nullptr ||
      conda_package(look, "tensorflow-gpu") != nullptr)
    return std::nullopt;
  // The build information exists but could not be read. Do not guess from the release.
  if (look.see_whole(look.facts.builds) == nullptr && !look.facts.builds.is_absent())
    return std::nullopt;
  const TensorflowRelease* row = look.knowledge.compatibility().tensorflow_of(tensorflow.version);
  if (row == nullptr) return std::nullopt;
  return CudaNeeds{row->cuda, row->cudnn, tensorflow.path};
}

std::string runtime_name(std::string_view cuda) {
  const Version version = version_of(cuda);
  if (version.empty()) return "";
  if (version[0] >= 12) return "libcudart.so." + std::to_string(version[0]);
  return "libcudart.so." + (version[0] == 11 ? "11.0" : beginning(cuda));
}

std::string blas_name(std::string_view cuda) {
  // Since 10.1, the file name has only the major version.
  return "libcublas.so." + (is_older(cuda, "10.1") ? beginning(cuda) : beginning(cuda, 1));
}

std::string solver_name(std::string_view cuda) {
  if (is_older(cuda, "10.1") || !is_older(cuda, "13")) return "";
  return is_older(cuda, "11.1") ? "libcusolver.so.10" : "libcusolver.so.11";
}

}  // namespace berth::doctor
