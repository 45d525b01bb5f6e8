// Builds: every published build of a framework that the compatibility data knows, and what each
// asks of Python, driver and GPU. A pure reading of the tables.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/compatibility.hpp"

namespace berth::doctor {

enum class Framework : unsigned char { kTorch, kTensorflow, kJax, kCupy };
enum class Platform : unsigned char { kNvidia, kRocm, kXpu, kCpu };

/// "torch", "tensorflow", "jax", "cupy".
[[nodiscard]] std::optional<Framework> framework_of(std::string_view word);
[[nodiscard]] const char* word_of(Framework framework);
/// "PyTorch": how sentences call it.
[[nodiscard]] const char* name_of(Framework framework);

struct Build {
  std::string release;  // "2.14"
  std::string python;   // "3.10-3.14"
  std::string cuda;     // "12.6"; "" for another platform
  std::string package;  // "torch==2.14.*", "jax[cuda12]==0.12.*"
  std::string tag;      // of PyTorch's own index: "cu126", "cpu", "rocm7.2", "xpu"; "" it has none
  bool on_pypi = true;  // PyPI's own wheel is this one
  bool is_jitted = false;      // it brings no kernels, but a compiler
  bool needs_toolkit = false;  // of that CUDA's major, on the machine: pip brings none
};

/// Newest release first.
[[nodiscard]] std::vector<Build> builds_of(const Compatibility& known, Framework framework,
                                           Platform platform, bool aarch64);

/// What a GPU needs for a build to run on it.
struct Need {
  std::string driver;    // the lowest; "" not known
  std::string made_for;  // a driver made for this CUDA or a newer one: it compiles PTX; "" any
  std::string to_exist;  // the driver that is the first to run such GPUs at all; "" not known
  int last_branch = 0;   // the last that runs them; 0 none is
};
/// nullopt: the build can't use such a GPU, or the tables do not prove that it can.
[[nodiscard]] std::optional<Need> need_of(const Compatibility& known, Framework framework,
                                          const Build& build, bool aarch64,
                                          std::string_view capability);

/// "nvidia-cudnn-cu12==9.10.*" where the newest cuDNN, which pip would take, has left out a GPU
/// that an older one serves; "" no such pin is needed.
[[nodiscard]] std::string cudnn_pin(const Compatibility& known, Framework framework,
                                    const Build& build,
                                    const std::vector<std::string>& capabilities);

}  // namespace berth::doctor
