// What a package needs of CUDA: from its own build information, otherwise from its release.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// The package's own build information; nullptr: none, or not installed.
[[nodiscard]] const PackageBuild* stated_build(Examination& look, std::string_view package);

/// The installed TensorFlow if it is built for CUDA. Up to 2.0 (except 1.15) the GPU build has
/// another package name.
[[nodiscard]] Fact<Distribution> cuda_tensorflow(Examination& look);

struct CudaNeeds {
  std::string cuda, cudnn;  // "10.1", "7.6"; "" unknown
  std::string says;         // the file or release that shows it
};
/// For that TensorFlow; unknown for conda's builds without build information.
[[nodiscard]] std::optional<CudaNeeds> needs_of_tensorflow(Examination& look,
                                                           const Distribution& tensorflow);

/// The runtime's file name for this CUDA: "libcudart.so.10.1", "libcudart.so.11.0",
/// "libcudart.so.12". cuBLAS is similar.
[[nodiscard]] std::string runtime_name(std::string_view cuda);
[[nodiscard]] std::string blas_name(std::string_view cuda);
/// cuSOLVER's file name, which has another number than CUDA; "" unknown.
[[nodiscard]] std::string solver_name(std::string_view cuda);

}  // namespace berth::doctor
