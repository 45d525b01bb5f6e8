// Whether a package finds CUDA libraries in NVIDIA's wheels. The loader does not search there, so
// the package must do it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

enum class WheelSearch : unsigned char {
  kAlways,
  kWhenCalled,  // only after the program has called the function `call`
  kNever,
};

struct SearchesWheels {
  WheelSearch how = WheelSearch::kNever;
  std::string call, source;  // `call` is set for kWhenCalled: "onnxruntime.preload_dlls()"
};

/// Returns how a package (a name as in LinkedLibrary) searches for a library; kNever if this is
/// unknown. If an installed PyTorch loads the library, returns kAlways, because other packages can
/// use the library after `import torch`.
[[nodiscard]] SearchesWheels searches_wheels(Examination& look, std::string_view package,
                                             std::string_view library);

/// Whether the library is in a folder where the loader or this package searches.
[[nodiscard]] bool reaches(Examination& look, std::string_view package, const CudaLibrary& one);

/// All libraries whose name starts with `begin`, in any folder.
[[nodiscard]] std::vector<CudaLibrary> libraries_named(Examination& look, std::string_view begin);

/// A fix whose command unsets LD_LIBRARY_PATH.
[[nodiscard]] model::Fix unset_library_path();
/// A fix whose command adds these folders to LD_LIBRARY_PATH.
[[nodiscard]] model::Fix name_in_library_path(const std::vector<std::string>& folders);

}  // namespace berth::doctor
