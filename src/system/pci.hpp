// What stands on the PCI bus, from sysfs alone: nothing here wakes a device or needs a driver.
#pragma once

#include <string>
#include <vector>

#include "base/file.hpp"
#include "model/pci.hpp"

namespace berth::system {

using model::PciDevice;
using model::pcie_generation;

/// Every display controller (class 03) and processing accelerator (class 12), and devices of
/// vendors known to build accelerators under other classes; by address. Empty where there is no
/// PCI.
[[nodiscard]] std::vector<PciDevice> scan_pci(const Roots& roots);

/// Whether the device at this address sleeps now; asking does not wake it.
[[nodiscard]] bool is_suspended(const Roots& roots, const std::string& address);

}  // namespace berth::system
