// Builds: the published builds of a framework in the compatibility data, and the Python, driver and
// GPU that each build requires.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/knowledge/compatibility.hpp"

namespace berth::doctor {

enum class Framework : unsigned char { kTorch, kTensorflow, kJax, kCupy, kOnnxruntime };
enum class Platform : unsigned char { kNvidia, kRocm, kXpu, kCpu };

/// The framework with this name: "torch", "tensorflow", "jax", "cupy" or "onnxruntime".
[[nodiscard]] std::optional<Framework> framework_of(std::string_view word);
[[nodiscard]] const char* word_of(Framework framework);
/// All framework names, for messages: "torch, tensorflow, …".
[[nodiscard]] std::string framework_words();
/// The framework's name in messages: "PyTorch".
[[nodiscard]] const char* name_of(Framework framework);

struct Build {
  std::string release;  // "2.14"
  std::string python;   // the supported Python versions: "3.10-3.14"
  std::string cuda;     // the build's CUDA version: "12.6"; "" if the build is not for CUDA
  std::string package;  // the requirement for pip: "torch==2.14.*", "jax[cuda12]==0.12.*"
  std::string tag;  // the build's name in PyTorch's index: "cu126", "rocm7.2"; "" if not PyTorch
  bool on_pypi = true;  // this build is the wheel on PyPI
  bool is_jitted =
      false;  // the package compiles its kernels at run time instead of containing them
  // the user must install a CUDA toolkit of this major version, because pip installs none
  bool needs_toolkit = false;
};

/// Sorted from the newest release to the oldest.
[[nodiscard]] std::vector<Build> builds_of(const Compatibility& known, Framework framework,
                                           Platform platform, bool aarch64);

/// What a build requires from a machine with a certain GPU.
struct Need {
  std::string driver;  // the lowest driver version that runs the build
  // if set: the driver must support this CUDA version, because it compiles the build's PTX
  std::string made_for;
  std::string to_exist;  // first driver version that supports this GPU; "" if unknown
  int last_branch = 0;   // last driver branch that supports this GPU; 0 if there is no limit
};
/// Returns nullopt if the build cannot use a GPU of this capability, or if the tables do not show
/// whether it can.
[[nodiscard]] std::optional<Need> need_of(const Compatibility& known, Framework framework,
                                          const Build& build, bool aarch64,
                                          std::string_view capability);

/// Pip may install a cuDNN that does not support one of the GPUs. If so, returns a pin such as
/// "nvidia-cudnn-cu12==9.10.*"; otherwise "".
[[nodiscard]] std::string cudnn_pin(const Compatibility& known, Framework framework,
                                    const Build& build,
                                    const std::vector<std::string>& capabilities);

}  // namespace berth::doctor
