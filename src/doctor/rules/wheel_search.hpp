// Whether a package finds CUDA libraries in NVIDIA's wheels. The loader does not search there, so
// the package has to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

enum class WheelSearch : unsigned char {
  kAlways,
  kWhenCalled,  // only after the program has called a certain function
  kNever,
};

struct SearchesWheels {
  WheelSearch how = WheelSearch::kNever;
  std::string call, source;  // for kWhenCalled: "onnxruntime.preload_dlls()"
};

/// `package` is a name as in LinkedLibrary; kNever if it is unknown. If PyTorch is imported first,
/// its libraries serve all packages. So the answer for a library that an installed PyTorch loads is
/// kAlways.
[[nodiscard]] SearchesWheels searches_wheels(Examination& look, std::string_view package,
                                             std::string_view library);

/// Whether the library is in a folder that the loader or this package searches.
[[nodiscard]] bool reaches(Examination& look, std::string_view package, const CudaLibrary& one);

/// All libraries with this name or prefix, in any folder.
[[nodiscard]] std::vector<CudaLibrary> libraries_named(Examination& look, std::string_view begin);

/// A fix with the command that unsets LD_LIBRARY_PATH.
[[nodiscard]] model::Fix unset_library_path();
/// A fix with the command that adds these folders to LD_LIBRARY_PATH.
[[nodiscard]] model::Fix name_in_library_path(const std::vector<std::string>& folders);

}  // namespace berth::doctor
