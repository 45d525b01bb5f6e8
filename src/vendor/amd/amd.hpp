// AMD GPUs from sysfs (driver amdgpu) and the compute driver's topology (kfd): no library, no
// daemon, no wake-up.
#pragma once

#include <vector>

#include "base/file.hpp"
#include "model/device.hpp"
#include "model/pci.hpp"

namespace berth::amd {

/// Every AMD GPU of `pci`, in its order; Device::index is not set. A suspended GPU is reported from
/// what the bus and kfd keep in memory, and not touched.
[[nodiscard]] std::vector<model::Device> read_devices(const Roots& roots,
                                                      const std::vector<model::PciDevice>& pci);

/// Reads anew how busy the GPU is and what power it takes, by its address, and nothing else. It
/// must not be suspended: the question would wake it.
void read_load(const Roots& roots, model::Device& device);

}  // namespace berth::amd
