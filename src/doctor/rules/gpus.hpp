// The GPUs and drivers, for rules about frameworks. The facts are from the driver's library, the
// kernel's files, or the PCI bus with a table of names.
#pragma once

#include <string>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

struct SeenGpu {
  std::string name;        // "NVIDIA GeForce GTX 1080 Ti"
  std::string where;       // the PCI address; "" if unknown
  std::string capability;  // the compute capability: "6.1"; "" if unknown
};

/// The NVIDIA GPUs. Empty if there are none, or if no source was readable; the examination then
/// records the reason.
[[nodiscard]] std::vector<SeenGpu> seen_gpus(Examination& look);
/// Whether there is an AMD GPU that ROCm's PyTorch supports. Integrated GPUs count only if there is
/// no NVIDIA GPU and ROCm is set up.
[[nodiscard]] bool has_rocm_gpu(Examination& look);

struct SeenDriver {
  std::string version;  // "470.86"; "" if unknown
  std::string cuda;     // the newest CUDA version that the driver supports; "" if unknown
};
[[nodiscard]] SeenDriver nvidia_driver(Examination& look);

[[nodiscard]] bool is_aarch64(const Facts& facts);
/// PyTorch's CUDA version ("12.4"), from version.py or from the requirements of its wheel. Returns
/// "" if there is none or if it is unknown.
[[nodiscard]] std::string torch_cuda(Examination& look);
/// The conda package with this name; nullptr if it is not installed by conda.
[[nodiscard]] const CondaPackage* conda_package(Examination& look, std::string_view name);
/// The name and version of a distribution, for messages.
[[nodiscard]] std::string named(const Distribution& one);

}  // namespace berth::doctor
