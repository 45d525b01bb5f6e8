// How packages were built: for which CUDA, cuDNN, GPUs and PyTorch. Read from files that the
// packages contain. This is more reliable than tables of releases, and it also works for builds by
// conda, distributions or NVIDIA.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/fact.hpp"
#include "doctor/facts/python.hpp"

namespace berth::doctor {

struct PackageBuild {
  std::string package;  // pip's name: "tensorflow"
  std::string path;     // path of the file that states these properties
  Fact<bool> for_cuda;  // whether the build supports CUDA; absent if unknown
  std::string cuda;     // CUDA version: "11.2"; empty if unknown
  std::string cudnn;    // cuDNN version: "8"; empty if unknown
  std::string torch;    // the PyTorch that it was compiled against: "2.3.0+cu121"; empty if unknown
  std::vector<std::string> sass;  // compute capabilities with machine code: "8.0"
  std::string ptx;  // newest compute capability with PTX; empty if there is none or it is unknown
};

/// Parses the file in which a package describes its build. The keys depend on the package. The file
/// is not executed.
[[nodiscard]] PackageBuild parse_package_build(std::string_view package, std::string_view text);

/// Whether parse_package_build() can read the file at this path.
[[nodiscard]] bool is_package_build(std::string_view path);

}  // namespace berth::doctor
