// Checks in a machine file what its types and ranges do not ensure: consistent numbers and known
// words.
#pragma once

#include <optional>
#include <string>

#include "sim/machine.hpp"

namespace berth::sim {

/// Returns the first problem as a sentence, or nullopt if there is none.
[[nodiscard]] std::optional<std::string> problem_of(const MachineDriver& driver);
[[nodiscard]] std::optional<std::string> problem_of(const MachineDevices& devices);
[[nodiscard]] std::optional<std::string> problem_of(const MachineProcess& process);
[[nodiscard]] std::optional<std::string> problem_of(const Machine& machine);
/// Sets missing keys whose values follow from other keys.
void fill_defaults(MachineDevices& devices);

struct PciAddress {
  std::uint32_t domain = 0, bus = 0, slot = 0;
};
/// Parses an address in the kernel's form, "0000:81:00.0". Only function 0 is valid.
[[nodiscard]] std::optional<PciAddress> parse_pci_address(std::string_view address);
/// Parses "10de:2330" to device << 16 | vendor; nullopt if it is invalid.
[[nodiscard]] std::optional<std::uint32_t> parse_pci_id(std::string_view id);
/// The class code for "3d", "vga", "display" or "accelerator".
[[nodiscard]] std::optional<std::uint32_t> parse_pci_class(std::string_view word);
/// The bit in Device::unsupported for the value with this name (wire/sim_state.hpp).
[[nodiscard]] std::optional<std::uint32_t> ability_of(std::string_view name);
/// The numbers in a version: {580, 95, 5} for "580.95.05".
struct DriverVersion {
  std::uint32_t major = 0, minor = 0, patch = 0;
};
[[nodiscard]] std::optional<DriverVersion> parse_driver_version(std::string_view version);
/// The number for a CUDA version, 13000 for "13.0", as nvmlSystemGetCudaDriverVersion returns it.
[[nodiscard]] std::optional<std::uint32_t> parse_cuda_version(std::string_view version);
/// NVML's number for an NVIDIA architecture: 9 for "hopper".
[[nodiscard]] std::optional<std::uint32_t> nvidia_architecture(std::string_view name);
[[nodiscard]] std::optional<std::uint32_t> compute_mode_of(std::string_view name);
[[nodiscard]] std::optional<std::uint32_t> brand_of(std::string_view name);
/// The number of slices of a profile: 3 for "3g.40gb".
[[nodiscard]] std::optional<std::uint32_t> slices_of(std::string_view profile);
/// The bit for a word in `use`: wire::sim::kCompute for "compute".
[[nodiscard]] std::optional<std::uint32_t> use_of(std::string_view word);
/// The number of devices in all groups.
[[nodiscard]] std::size_t device_count(const Machine& machine);
/// The group that contains the device with index `device`.
[[nodiscard]] const MachineDevices& group_of(const Machine& machine, std::size_t device);

}  // namespace berth::sim
