// The values of the CPU's device that change over time.
#pragma once

#include "base/file.hpp"
#include "model/device.hpp"
#include "model/snapshot.hpp"

namespace berth::system {

/// Sets memory sizes, temperature, memory errors, and the cores that this process may use.
void read_cpu_state(const Roots& roots, const model::Host& host, model::Device& device);

}  // namespace berth::system
