// Names of GPUs and accelerators by PCI id, from a table that is part of the program
// (data/pci_names.txt,
// data/amdgpu_names.txt): a machine without the pci.ids package, or a container, still shows names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::system {

/// "GeForce RTX 4090"; nullopt where the table does not know the device. With its revision, AMD's
/// "Radeon RX 7900 XTX" is told from the others of the same id.
[[nodiscard]] std::optional<std::string> pci_name(
    std::uint16_t vendor, std::uint16_t device,
    std::optional<std::uint8_t> revision = std::nullopt);

/// The same in a given table: lines "VVVVDDDD name", lower-case hexadecimal, ascending.
[[nodiscard]] std::optional<std::string> name_in_table(std::string_view table, std::uint16_t vendor,
                                                       std::uint16_t device);

}  // namespace berth::system
