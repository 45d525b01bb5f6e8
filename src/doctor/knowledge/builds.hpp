// Builds: every published build of a framework in the compatibility data, and what it requires of
// Python, driver and GPU. Pure.
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
/// The name as written in sentences: "PyTorch".
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
      false;  // needs an installed toolkit with this CUDA major, because pip does not provide one
};

/// Newest release first.
[[nodiscard]] std::vector<Build> builds_of(const Compatibility& known, Framework framework,
                                           Platform platform, bool aarch64);

/// What a machine with a GPU needs to run a build.
struct Need {
  std::string driver;    // lowest driver version; "" unknown
  std::string made_for;  // the driver must support this CUDA to compile PTX; "" any
  std::string to_exist;  // first driver that supports this GPU; "" unknown
  int last_branch = 0;   // last driver branch that supports this GPU; 0 no limit
};
/// nullopt: the build cannot use such a GPU, or the tables do not prove that it can.
[[nodiscard]] std::optional<Need> need_of(const Compatibility& known, Framework framework,
                                          const Build& build, bool aarch64,
                                          std::string_view capability);

/// "nvidia-cudnn-cu12==9.10.*" if pip would install a cuDNN that no longer supports one of the
/// GPUs; "" if no pin is needed.
[[nodiscard]] std::string cudnn_pin(const Compatibility& known, Framework framework,
                                    const Build& build,
                                    const std::vector<std::string>& capabilities);

}  // namespace berth::doctor
