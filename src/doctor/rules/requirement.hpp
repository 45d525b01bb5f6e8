// NVIDIA_REQUIRE_CUDA: what an image asks of the machine's driver. Blanks mean "or", commas "and":
// "cuda>=12.8 brand=tesla,driver>=535,driver<536".
#pragma once

#include <string>
#include <string_view>

namespace berth::doctor {

struct DriverForImage {
  std::string version;  // "535.247.01"
  std::string cuda;     // the highest it serves: "12.2"; "" not known
  std::string gpu;      // product name; "" not known
};

enum class Satisfied { kYes, kNo, kUnknown };

[[nodiscard]] Satisfied satisfies(std::string_view requirement, const DriverForImage& driver);
/// The one that a person has to look at: "cuda>=12.8".
[[nodiscard]] std::string first_condition(std::string_view requirement);
/// What a driver of that branch serves: "12.2" for 535.*; "" older than any we know.
[[nodiscard]] std::string cuda_of_driver(std::string_view version);

}  // namespace berth::doctor
