// Who in the target's environment was built with which CUDA.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/builds.hpp"
#include "doctor/rule.hpp"

namespace berth::doctor {

/// A package that was built with some CUDA, or was given its libraries.
struct CudaUse {
  std::string what;  // "PyTorch 2.4.1+cu121"
  std::string cuda;  // "12.1", or "12" where any of that major will do
  std::string path;  // that says so
  std::optional<Framework> framework = std::nullopt;  // that recipes are for
  std::string package = {};  // whose name says for which CUDA it is; "" none
};

/// Frameworks whose build is known: by what they say of themselves, or by their release.
[[nodiscard]] std::vector<CudaUse> framework_uses(Examination& look);
/// Whatever else there is: by the libraries of CUDA that a file links to, that a package requires
/// as wheels or is known to open, or that the environment was pointed to.
[[nodiscard]] std::vector<CudaUse> library_uses(Examination& look);

}  // namespace berth::doctor
