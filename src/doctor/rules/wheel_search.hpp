// Whether a package finds CUDA's libraries in NVIDIA's wheels: the loader does not look there, so
// it has to do so itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/rule.hpp"

namespace berth::doctor {

enum class WheelSearch : unsigned char {
  kAlways,
  kWhenCalled,  // only where the program calls a function of it first
  kNever,
};

struct SearchesWheels {
  WheelSearch how = WheelSearch::kNever;
  std::string call, source;  // of kWhenCalled: "onnxruntime.preload_dlls()"
};

/// `package` as LinkedLibrary says it; of one that is not known: kNever. Where PyTorch is there, it
/// may be imported first, and what it has loaded serves all: kAlways for what it loads.
[[nodiscard]] SearchesWheels searches_wheels(Examination& look, std::string_view package,
                                             std::string_view library);

/// Whether it lies where the loader looks, or where this package does.
[[nodiscard]] bool reaches(Examination& look, std::string_view package, const CudaLibrary& one);

/// All of that name, or whose names begin so, wherever they are.
[[nodiscard]] std::vector<CudaLibrary> libraries_named(Examination& look, std::string_view begin);

/// LD_LIBRARY_PATH away, as a command.
[[nodiscard]] model::Fix unset_library_path();
/// LD_LIBRARY_PATH with the folders of these libraries, as a command.
[[nodiscard]] model::Fix name_in_library_path(const std::vector<std::string>& folders);

}  // namespace berth::doctor
