// Reads AMD GPUs from sysfs (amdgpu driver) and the compute driver's topology (kfd). Needs no
// library or daemon, and never wakes a GPU.
#pragma once

#include <vector>

#include "base/file.hpp"
#include "model/device.hpp"
#include "model/pci.hpp"

namespace berth::amd {

/// Returns all AMD GPUs in `pci`, in the same order; Device::index is not set. No file of a
/// suspended GPU is read: its values come from the bus and from kfd.
[[nodiscard]] std::vector<model::Device> read_devices(const Roots& roots,
                                                      const std::vector<model::PciDevice>& pci);

/// Reads utilization and power again; the device's PCI address must be set. Do not call it for a
/// suspended device, because the call would wake it.
void read_load(const Roots& roots, model::Device& device);

}  // namespace berth::amd
