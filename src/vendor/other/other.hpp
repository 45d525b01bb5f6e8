// Google's TPUs, and accelerators of vendors whose drivers Berth does not speak to: seen on the
// bus, named, and left alone.
#pragma once

#include <vector>

#include "base/file.hpp"
#include "model/device.hpp"
#include "model/pci.hpp"

namespace berth::other {

/// TPUs by their PCI ids, with the device node a program opens; a container that hides the bus but
/// has /dev/accelN yields TPUs without an address.
[[nodiscard]] std::vector<model::Device> read_tpus(const Roots& roots,
                                                   const std::vector<model::PciDevice>& pci);
/// Accelerators that are seen and not managed, each with a note that says so.
[[nodiscard]] std::vector<model::Device> read_unmanaged(const std::vector<model::PciDevice>& pci);

}  // namespace berth::other
