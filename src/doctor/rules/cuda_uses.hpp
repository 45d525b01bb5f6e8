// Which packages in the target's environment were built for which CUDA version.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/knowledge/builds.hpp"
#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// A package, and the CUDA version for which it was built or whose libraries it uses.
struct CudaUse {
  std::string what;  // the package, for messages: "PyTorch 2.4.1+cu121"
  std::string cuda;  // "12.1"; "12" if every release of that major version works
  std::string path;  // the file that shows the version
  std::optional<Framework> framework = std::nullopt;  // the framework, to look up a recipe for it
  /// The package's name, if it contains the CUDA version as in "cupy-cuda12x"; otherwise "".
  std::string package = {};
};

/// Returns the frameworks. Their own files or their release numbers show the CUDA version.
[[nodiscard]] std::vector<CudaUse> framework_uses(Examination& look);
/// Returns all other packages. Their CUDA version is that of CUDA libraries: a file of the package
/// links to these libraries, the package requires them as wheels or opens them, or LD_LIBRARY_PATH
/// contains them.
[[nodiscard]] std::vector<CudaUse> library_uses(Examination& look);

}  // namespace berth::doctor
