// What a machine file must hold beyond types and ranges: numbers that fit together, words that mean
// something.
#pragma once

#include <optional>
#include <string>

#include "sim/machine.hpp"

namespace berth::sim {

/// A sentence for people about the first thing that cannot be; nullopt where all is well.
[[nodiscard]] std::optional<std::string> problem_of(const MachineDriver& driver);
[[nodiscard]] std::optional<std::string> problem_of(const MachineDevices& devices);
[[nodiscard]] std::optional<std::string> problem_of(const MachineProcess& process);
[[nodiscard]] std::optional<std::string> problem_of(const Machine& machine);
/// What follows from other keys where a file leaves it out.
void fill_defaults(MachineDevices& devices);

struct PciAddress {
  std::uint32_t domain = 0, bus = 0, slot = 0;
};
/// "0000:81:00.0": the form of the kernel; function 0 only.
[[nodiscard]] std::optional<PciAddress> parse_pci_address(std::string_view address);
/// "10de:2330" → device << 16 | vendor; nullopt for anything else.
[[nodiscard]] std::optional<std::uint32_t> parse_pci_id(std::string_view id);
/// "3d", "vga", "display", "accelerator" → the class code.
[[nodiscard]] std::optional<std::uint32_t> parse_pci_class(std::string_view word);
/// The bit of a reading's name (wire/sim_state.hpp).
[[nodiscard]] std::optional<std::uint32_t> ability_of(std::string_view name);
/// "580.95.05" → {580, 95, 5}.
struct DriverVersion {
  std::uint32_t major = 0, minor = 0, patch = 0;
};
[[nodiscard]] std::optional<DriverVersion> parse_driver_version(std::string_view version);
/// "13.0" → 13000, as nvmlSystemGetCudaDriverVersion has it.
[[nodiscard]] std::optional<std::uint32_t> parse_cuda_version(std::string_view version);
/// NVML's number of an NVIDIA architecture ("hopper" → 9).
[[nodiscard]] std::optional<std::uint32_t> nvidia_architecture(std::string_view name);
[[nodiscard]] std::optional<std::uint32_t> compute_mode_of(std::string_view name);
[[nodiscard]] std::optional<std::uint32_t> brand_of(std::string_view name);
/// "3g.40gb" → 3.
[[nodiscard]] std::optional<std::uint32_t> slices_of(std::string_view profile);
/// "compute" → wire::sim::kCompute.
[[nodiscard]] std::optional<std::uint32_t> use_of(std::string_view word);
/// How many devices the groups have together.
[[nodiscard]] std::size_t device_count(const Machine& machine);
/// The group of the i-th device.
[[nodiscard]] const MachineDevices& group_of(const Machine& machine, std::size_t device);

}  // namespace berth::sim
