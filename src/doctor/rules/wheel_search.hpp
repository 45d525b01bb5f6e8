// Whether a package finds CUDA libraries in NVIDIA's wheels. The loader does not search there, so
// the package must.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

enum class WheelSearch : unsigned char {
  kAlways,
  kWhenCalled,  // only after the program has called a function
  kNever,
};

struct SearchesWheels {
  WheelSearch how = WheelSearch::kNever;
  std::string call, source;  // for kWhenCalled: "onnxruntime.preload_dlls()"
};

/// `package` as in LinkedLibrary; kNever if unknown. If PyTorch is installed, it may be imported
/// first, and its loaded libraries serve all packages: kAlways for those.
[[nodiscard]] SearchesWheels searches_wheels(Examination& look, std::string_view package,
                                             std::string_view library);

/// Whether the library is where the loader or this package searches.
[[nodiscard]] bool reaches(Examination& look, std::string_view package, const CudaLibrary& one);

/// All libraries with this name or prefix, wherever they are.
[[nodiscard]] std::vector<CudaLibrary> libraries_named(Examination& look, std::string_view begin);

/// A command that unsets LD_LIBRARY_PATH.
[[nodiscard]] model::Fix unset_library_path();
/// A command that adds the folders of these libraries to LD_LIBRARY_PATH.
[[nodiscard]] model::Fix name_in_library_path(const std::vector<std::string>& folders);

}  // namespace berth::doctor
