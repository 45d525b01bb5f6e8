// GPUs that use the host's memory. Pure.
#pragma once

#include "model/device.hpp"

namespace berth::inventory {

/// Sets the memory sizes of a device with unified memory to those of the host, if the device's
/// driver reports none. The device's note then explains it. `cpu` is the CPU's device.
void share_host_memory(model::Device& device, const model::Device& cpu);

}  // namespace berth::inventory
