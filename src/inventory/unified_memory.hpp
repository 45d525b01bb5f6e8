// GPUs that use the host's memory. Pure.
#pragma once

#include "model/device.hpp"

namespace berth::inventory {

/// Gives a device with unified memory whose driver tells no sizes those of the host (`cpu`: the
/// CPU's device), and says so in its note.
void share_host_memory(model::Device& device, const model::Device& cpu);

}  // namespace berth::inventory
