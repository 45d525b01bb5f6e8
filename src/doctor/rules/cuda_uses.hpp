// Which packages in the target's environment were built with which CUDA.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/knowledge/builds.hpp"
#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// A package that was built with a CUDA version or that uses CUDA libraries of this version.
struct CudaUse {
  std::string what;  // "PyTorch 2.4.1+cu121"
  std::string cuda;  // "12.1", or "12" if any release of that major works
  std::string path;  // the file that shows the version
  std::optional<Framework> framework = std::nullopt;  // the framework for which to look up recipes
  std::string package = {};  // the package's name if it contains the CUDA version; otherwise ""
};

/// Frameworks whose build is known, from their own files or from their release.
[[nodiscard]] std::vector<CudaUse> framework_uses(Examination& look);
/// All other packages. Their CUDA version is that of CUDA libraries that a file links to, that a
/// package requires as wheels or is known to open, or that LD_LIBRARY_PATH provides.
[[nodiscard]] std::vector<CudaUse> library_uses(Examination& look);

}  // namespace berth::doctor
