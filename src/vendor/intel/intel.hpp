// Intel GPUs from sysfs, of the drivers i915 and xe: graphics inside processors, Arc, and the data
// centre's Flex and Max.
#pragma once

#include <vector>

#include "base/file.hpp"
#include "model/device.hpp"
#include "model/pci.hpp"

namespace berth::intel {

/// Every Intel GPU of `pci`, in its order; Device::index is not set. A suspended GPU is not
/// touched. Memory in use is not in sysfs: it is the sum over the DRM clients
/// (system/drm_fdinfo.hpp), which the inventory adds.
[[nodiscard]] std::vector<model::Device> read_devices(const Roots& roots,
                                                      const std::vector<model::PciDevice>& pci);

/// Reads the energy counter anew, by the device's address; how busy the GPU is, sysfs does not
/// tell. It must not be suspended: the question would wake it.
void read_load(const Roots& roots, model::Device& device);

}  // namespace berth::intel
