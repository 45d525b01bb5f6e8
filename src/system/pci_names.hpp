// Names of GPUs and accelerators by PCI id, from a table in the program (data/pci_names.txt,
// data/amdgpu_names.txt), so that names also appear in containers and without the pci.ids package.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::system {

/// "GeForce RTX 4090"; nullopt if the device is not in the table. The revision distinguishes AMD
/// devices with the same id, such as the "Radeon RX 7900 XTX".
[[nodiscard]] std::optional<std::string> pci_name(
    std::uint16_t vendor, std::uint16_t device,
    std::optional<std::uint8_t> revision = std::nullopt);

/// Searches a table of lines "VVVVDDDD name" (vendor and device in lower-case hexadecimal), in
/// ascending order.
[[nodiscard]] std::optional<std::string> name_in_table(std::string_view table, std::uint16_t vendor,
                                                       std::uint16_t device);

}  // namespace berth::system
