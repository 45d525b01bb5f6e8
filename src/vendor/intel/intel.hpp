// Reads Intel GPUs from sysfs (i915 and xe drivers): integrated graphics, Arc, and the data
// centre's Flex and Max.
#pragma once

#include <vector>

#include "base/file.hpp"
#include "model/device.hpp"
#include "model/pci.hpp"

namespace berth::intel {

/// Returns all Intel GPUs in `pci`, in the same order; Device::index is not set. No file of a
/// suspended GPU is read. sysfs does not report used memory; the inventory adds the sum over DRM
/// clients (system/drm_fdinfo.hpp).
[[nodiscard]] std::vector<model::Device> read_devices(const Roots& roots,
                                                      const std::vector<model::PciDevice>& pci);

/// Reads the energy counter again; the device's PCI address must be set. sysfs does not report
/// utilization. Do not call it for a suspended device, because the call would wake it.
void read_load(const Roots& roots, model::Device& device);

}  // namespace berth::intel
