// GPUs that use the host's memory. Pure.
#pragma once

#include "model/device.hpp"

namespace berth::inventory {

/// If the driver of a device with unified memory reports no sizes, uses the host's (`cpu`: the
/// CPU's device), and says so in its note.
void share_host_memory(model::Device& device, const model::Device& cpu);

}  // namespace berth::inventory
