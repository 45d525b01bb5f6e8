// The device nodes of GPUs by their numbers: what a filter of the kernel's knows a device by.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "model/access.hpp"

namespace berth::system {

/// Of every GPU that a job can be given: /dev/nvidiaN, its /dev/dri/card* and renderD*, and for
/// partitions their /dev/nvidia-caps/*. A device whose nodes are not known is not in the list.
[[nodiscard]] model::GpuNodes gpu_nodes(const Roots& roots,
                                        const std::vector<model::Device>& devices);

/// The number of a kind of character devices in /proc/devices; nullopt: its module is not loaded.
[[nodiscard]] std::optional<std::uint32_t> character_major(std::string_view proc_devices,
                                                           std::string_view name);

}  // namespace berth::system
