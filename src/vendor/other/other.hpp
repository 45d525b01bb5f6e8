// Google's TPUs, and accelerators whose drivers Berth does not support. The latter are only listed
// and named.
#pragma once

#include <vector>

#include "base/file.hpp"
#include "model/device.hpp"
#include "model/pci.hpp"

namespace berth::other {

/// Returns TPUs, which are recognised by their PCI ids, with the device node that a program opens.
/// In a container that hides the bus but has /dev/accelN, returns TPUs without an address.
[[nodiscard]] std::vector<model::Device> read_tpus(const Roots& roots,
                                                   const std::vector<model::PciDevice>& pci);
/// Returns accelerators on the bus that Berth cannot use. The note of each device explains this.
[[nodiscard]] std::vector<model::Device> read_unmanaged(const std::vector<model::PciDevice>& pci);

}  // namespace berth::other
