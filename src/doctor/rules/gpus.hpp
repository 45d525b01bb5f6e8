// What rules about frameworks ask of the GPUs and their driver, from whoever knows it: the driver's
// library, the kernel's files, or the bus with a table of names.
#pragma once

#include <string>
#include <vector>

#include "doctor/rule.hpp"

namespace berth::doctor {

struct SeenGpu {
  std::string name;        // "NVIDIA GeForce GTX 1080 Ti"
  std::string where;       // its PCI address; "" not known
  std::string capability;  // "6.1"; "" not known
};

/// Empty: there is none, or none could be seen (which is remembered).
[[nodiscard]] std::vector<SeenGpu> seen_gpus(Examination& look);
/// An AMD GPU that ROCm's PyTorch serves; integrated ones only where ROCm is meant for them.
[[nodiscard]] bool has_rocm_gpu(Examination& look);

struct SeenDriver {
  std::string version;  // "470.86"; "" not known
  std::string cuda;     // the newest it was made for; "" not known
};
[[nodiscard]] SeenDriver nvidia_driver(Examination& look);

[[nodiscard]] bool is_aarch64(const Facts& facts);
/// "PyTorch's CUDA", where it is known: out of version.py, or the pins of its wheel: "12.4". "" it
/// has none or nobody knows.
[[nodiscard]] std::string torch_cuda(Examination& look);
/// By conda, which has wheels of its own making.
[[nodiscard]] const CondaPackage* conda_package(Examination& look, std::string_view name);
/// How messages name the target.
[[nodiscard]] std::string named(const Distribution& one);

}  // namespace berth::doctor
