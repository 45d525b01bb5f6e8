// The simulated libnvidia-ml.so.1 that Berth carries, made to look as old as the machine's driver:
// functions that came later are hidden, so that dlsym() does not find them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth::sim {

/// NVML's names in the order in which calls are counted.
[[nodiscard]] std::vector<std::string_view> driver_functions();
/// The library as a file.
[[nodiscard]] std::string driver_library(std::uint32_t driver_major);
/// The program that stands for users of a simulated GPU.
[[nodiscard]] std::string_view sleeper_program();

}  // namespace berth::sim
