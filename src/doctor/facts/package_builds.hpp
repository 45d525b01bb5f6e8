// What packages say of their own build, each in a file that its makers put into it: which CUDA,
// which cuDNN, for which GPUs, against which PyTorch. That counts before any table of releases, and
// it is there for builds of whoever: conda's, a distribution's, NVIDIA's own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/fact.hpp"
#include "doctor/facts/python.hpp"

namespace berth::doctor {

struct PackageBuild {
  std::string package;            // as pip calls it: "tensorflow"
  std::string path;               // of the file
  Fact<bool> for_cuda;            // absent: it does not say
  std::string cuda;               // "11.2"; "" not told
  std::string cudnn;              // "8"; "" not told
  std::string torch;              // that it was compiled against: "2.3.0+cu121"; "" not told
  std::vector<std::string> sass;  // capabilities that it holds machine code for: "8.0"
  std::string ptx;                // the newest that it holds PTX for; "" none, or not told
};

/// Whose file it is, and what the file calls things. Nothing is executed: a key, and what stands
/// behind it.
[[nodiscard]] PackageBuild parse_package_build(std::string_view package, std::string_view text);

/// Whether it is such a file.
[[nodiscard]] bool is_package_build(std::string_view path);

[[nodiscard]] Fact<std::vector<PackageBuild>> collect_package_builds(const Tree& tree,
                                                                     const PythonFacts& python);

}  // namespace berth::doctor
