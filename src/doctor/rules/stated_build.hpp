// Which CUDA a package needs, according to its build information. If it has none, its release
// decides.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// The build information of a package; nullptr if it has none, or if the package is not installed.
[[nodiscard]] const PackageBuild* stated_build(Examination& look, std::string_view package);

/// The installed TensorFlow, if it is built for CUDA. Before 2.1 (except 1.15), this build is the
/// package tensorflow-gpu.
[[nodiscard]] Fact<Distribution> cuda_tensorflow(Examination& look);

struct CudaNeeds {
  std::string cuda, cudnn;  // versions: "10.1", "7.6"; "" if unknown
  std::string says;         // the file that shows the versions, or that shows the release
};
/// What this TensorFlow needs. nullopt if it is unknown, as for conda's builds without build
/// information.
[[nodiscard]] std::optional<CudaNeeds> needs_of_tensorflow(Examination& look,
                                                           const Distribution& tensorflow);

/// The file name of the CUDA runtime for a CUDA version: "libcudart.so.10.1", "libcudart.so.11.0",
/// "libcudart.so.12".
[[nodiscard]] std::string runtime_name(std::string_view cuda);
[[nodiscard]] std::string blas_name(std::string_view cuda);
/// The file name of cuSOLVER, whose number differs from CUDA's; "" if unknown.
[[nodiscard]] std::string solver_name(std::string_view cuda);

}  // namespace berth::doctor
