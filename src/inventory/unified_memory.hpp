// GPUs that use the host's memory. Pure.
#pragma once

#include "model/device.hpp"

namespace berth::inventory {

/// If the driver of a device with unified memory reports no sizes, sets them to those of the host
/// (`cpu` is the CPU's device), and explains it in the device's note.
void share_host_memory(model::Device& device, const model::Device& cpu);

}  // namespace berth::inventory
