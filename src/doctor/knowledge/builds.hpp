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

/// "torch", "tensorflow", "jax", "cupy", "onnxruntime".
[[nodiscard]] std::optional<Framework> framework_of(std::string_view word);
[[nodiscard]] const char* word_of(Framework framework);
/// All framework names, for messages: "torch, tensorflow, …".
[[nodiscard]] std::string framework_words();
/// The framework's name in messages: "PyTorch".
[[nodiscard]] const char* name_of(Framework framework);

struct Build {
  std::string release;  // "2.14"
  std::string python;   // "3.10-3.14"
  std::string cuda;     // the build's CUDA version: "12.6"; "" on another platform
  std::string package;  // "torch==2.14.*", "jax[cuda12]==0.12.*"
  std::string
      tag;  // name of the build in PyTorch's index: "cu126", "cpu", "rocm7.2", "xpu"; "" none
  bool on_pypi = true;  // this build is the wheel on PyPI
  bool is_jitted =
      false;  // the package compiles its kernels at run time instead of containing them
  bool needs_toolkit =
      false;  // needs an installed toolkit with this CUDA major version, because pip installs none
};

/// Sorted from the newest release to the oldest.
[[nodiscard]] std::vector<Build> builds_of(const Compatibility& known, Framework framework,
                                           Platform platform, bool aarch64);

/// What a build requires from a machine with a certain GPU.
struct Need {
  std::string driver;    // lowest driver version; "" unknown
  std::string made_for;  // the driver must support this CUDA to compile the build's PTX
  std::string to_exist;  // first driver version that supports this GPU; "" unknown
  int last_branch = 0;   // last driver branch that supports this GPU; 0 no limit
};
/// nullopt: the build cannot use a GPU of this capability, or the tables do not prove that it can.
[[nodiscard]] std::optional<Need> need_of(const Compatibility& known, Framework framework,
                                          const Build& build, bool aarch64,
                                          std::string_view capability);

/// A pin such as "nvidia-cudnn-cu12==9.10.*", if pip would otherwise install a cuDNN that does not
/// support one of the GPUs; "" if no pin is needed.
[[nodiscard]] std::string cudnn_pin(const Compatibility& known, Framework framework,
                                    const Build& build,
                                    const std::vector<std::string>& capabilities);

}  // namespace berth::doctor
