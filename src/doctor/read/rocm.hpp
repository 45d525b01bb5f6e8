// Functions that read facts about AMD GPUs.
#pragma once

#include "doctor/facts/platform.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

[[nodiscard]] Fact<std::vector<AmdMemory>> collect_amd_memory(const Tree& tree);
[[nodiscard]] Fact<std::string> collect_linux_firmware(const Tree& tree);
/// Version of ROCm's package for WSL; absent: dpkg has none.
[[nodiscard]] Fact<std::string> collect_wsl_runtime(const Tree& tree);
[[nodiscard]] Fact<std::string> collect_own_runtime(const Tree& tree, const PythonFacts& python);

}  // namespace berth::doctor
