// Google's TPUs, and accelerators whose drivers Berth does not support. The latter are only listed
// and named.
#pragma once

#include <vector>

#include "base/file.hpp"
#include "model/device.hpp"
#include "model/pci.hpp"

namespace berth::other {

/// TPUs by PCI id, with the device node that a program opens. In a container that hides the bus but
/// has /dev/accelN, returns TPUs without an address.
[[nodiscard]] std::vector<model::Device> read_tpus(const Roots& roots,
                                                   const std::vector<model::PciDevice>& pci);
/// Accelerators that are on the bus but that Berth cannot use; the note of each explains this.
[[nodiscard]] std::vector<model::Device> read_unmanaged(const std::vector<model::PciDevice>& pci);

}  // namespace berth::other
