// The simulated libnvidia-ml.so.1 that Berth contains, adapted to the version of the driver:
// functions that are newer are hidden, so that dlsym() does not find them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth::sim {

/// The names of NVML's functions, in the order of the call counters.
[[nodiscard]] std::vector<std::string_view> driver_functions();
/// The bytes of the simulated libnvidia-ml.so.1 for this driver version.
[[nodiscard]] std::string driver_library(std::uint32_t driver_major);
/// The content of the simulated libcuda.so.1, which is the same for every machine.
[[nodiscard]] std::string_view cuda_library();
/// The program that runs as a process on a simulated GPU.
[[nodiscard]] std::string_view sleeper_program();

}  // namespace berth::sim
