// Reads one NVIDIA GPU through the function table: identity, readings and health. Keeps no state
// between scans, so each device can be read in its own thread.
#pragma once

#include <string>
#include <vector>

#include "model/device.hpp"
#include "vendor/nvml/value.hpp"

namespace berth::nvml {

struct DriverWords {
  std::string version;       // such as "580.95.05"; "": unknown
  std::string cuda_version;  // such as "13.0"; "": unknown
};
[[nodiscard]] DriverWords read_driver(const Api& api);

/// Reads the name, the uuid, the PCI address, other values that do not change, and the modes. Makes
/// 9 driver calls.
void read_identity(Look& look, model::Device& device);

struct Wanted {
  bool pcie_throughput = false;  // adds two driver calls that block for 20 ms each
};
/// Reads memory, utilization, power, and the values for the health. Makes 9 driver calls. Call it
/// after read_identity().
void read_readings(Look& look, model::Device& device);
/// Reads all other readings. If a slow driver leaves no time, skips them. Makes 15 driver calls,
/// and up to three for each NVLink.
void read_more(Look& look, const Wanted& wanted, model::Device& device);
/// Reads the values that `berth run` monitors: memory, utilization, power, energy, temperature.
void read_sample(Look& look, model::Device& device);
/// Sets throttle_reasons and health_reasons to the reasons why clocks are low. Returns false if the
/// driver did not answer.
bool read_throttle(Look& look, model::Device& device);
/// Reads a MIG partition and its memory. `handle` is the partition's handle.
[[nodiscard]] model::Partition partition_of(Look& look, nvmlDevice_t handle, std::uint32_t index);
/// Reads the MIG partitions with their memory, if MIG is enabled. Call it after read_identity().
void read_partitions(Look& look, model::Device& device);

/// Marks a device as unreadable. Either the driver lost it while Berth read it, or the driver
/// returned `code` instead of a handle.
void mark_unreadable(nvmlReturn_t code, model::Device& device);

}  // namespace berth::nvml
