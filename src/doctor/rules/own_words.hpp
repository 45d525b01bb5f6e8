// What a package needs of CUDA: by what it says of its own build, else by its release.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/rule.hpp"

namespace berth::doctor {

/// What this package says of its own build; nullptr: nothing, or it is not here.
[[nodiscard]] const PackageBuild* own_words(Examination& look, std::string_view package);

/// The TensorFlow that is here, where it is built for CUDA: up to 2.0 (but for 1.15) the build for
/// GPUs is a package of another name.
[[nodiscard]] Fact<Distribution> cuda_tensorflow(Examination& look);

struct CudaNeeds {
  std::string cuda, cudnn;  // "10.1", "7.6"; "" not told
  std::string says;         // the file or release that tells
};
/// Of that TensorFlow; nothing is known of conda's builds that do not tell it themselves.
[[nodiscard]] std::optional<CudaNeeds> needs_of_tensorflow(Examination& look,
                                                           const Distribution& tensorflow);

/// "libcudart.so.10.1", "libcudart.so.11.0", "libcudart.so.12": as programs for this CUDA ask for
/// its runtime, and cuBLAS likewise.
[[nodiscard]] std::string runtime_name(std::string_view cuda);
[[nodiscard]] std::string blas_name(std::string_view cuda);
/// cuSOLVER's, which does not count as CUDA does; "" where it is not known.
[[nodiscard]] std::string solver_name(std::string_view cuda);

}  // namespace berth::doctor
