// Devices on the PCI bus, from sysfs only: this wakes no device and needs no driver.
#pragma once

#include <string>
#include <vector>

#include "base/file.hpp"
#include "model/pci.hpp"

namespace berth::system {

using model::PciDevice;
using model::pcie_generation;

/// All display controllers (class 03) and processing accelerators (class 12), and devices of
/// vendors that build accelerators under other classes; sorted by address. Empty without PCI.
[[nodiscard]] std::vector<PciDevice> scan_pci(const Roots& roots);

/// Whether the device is suspended now. Reading this does not wake it.
[[nodiscard]] bool is_suspended(const Roots& roots, const std::string& address);

}  // namespace berth::system
