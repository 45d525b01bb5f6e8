// Finds the device numbers of GPU nodes. The device filter in the kernel identifies devices by
// these numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "model/access.hpp"

namespace berth::system {

/// The nodes of every GPU that a job can get: /dev/nvidiaN, its /dev/dri/card* and renderD*, and
/// for partitions /dev/nvidia-caps/*. Devices whose nodes are unknown are left out.
[[nodiscard]] model::GpuNodes gpu_nodes(const Roots& roots,
                                        const std::vector<model::Device>& devices);

/// The major number of a driver in /proc/devices; nullopt if its module is not loaded.
[[nodiscard]] std::optional<std::uint32_t> character_major(std::string_view proc_devices,
                                                           std::string_view name);

}  // namespace berth::system
