// NVIDIA_REQUIRE_CUDA: what an image requires from the driver of the host. A space means "or", a
// comma "and": "cuda>=12.8 brand=tesla,driver>=535,driver<536".
#pragma once

#include <string>
#include <string_view>

namespace berth::doctor {

struct DriverForImage {
  std::string version;  // the driver version: "535.247.01"
  std::string cuda;     // the highest CUDA version that the driver supports: "12.2"; "" if unknown
  std::string gpu;      // product name of the GPU; "" if unknown
};

enum class Satisfied { kYes, kNo, kUnknown };

[[nodiscard]] Satisfied satisfies(std::string_view requirement, const DriverForImage& driver);
/// The first condition of the requirement, for messages: "cuda>=12.8".
[[nodiscard]] std::string first_condition(std::string_view requirement);

}  // namespace berth::doctor
