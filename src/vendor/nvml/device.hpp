// Reads one NVIDIA GPU through the function table: identity, readings and health. Keeps no state
// between scans, so each device can be read in its own thread.
#pragma once

#include <string>
#include <vector>

#include "model/device.hpp"
#include "vendor/nvml/value.hpp"

namespace berth::nvml {

struct DriverWords {
  std::string version;       // "580.95.05"; "" unknown
  std::string cuda_version;  // "13.0"; "" unknown
};
[[nodiscard]] DriverWords read_driver(const Api& api);

/// Name, uuid, PCI address, other values that do not change, and the modes: 9 calls.
void read_identity(Look& look, model::Device& device);

struct Wanted {
  bool pcie_throughput = false;  // needs two calls that block for 20 ms each
};
/// Memory, load, power, and the values for health: 9 calls. Call after read_identity.
void read_readings(Look& look, model::Device& device);
/// The other readings, which are skipped if a slow driver leaves no time: 15 calls, and up to
/// three for each NVLink.
void read_more(Look& look, const Wanted& wanted, model::Device& device);
/// The values that `berth run` monitors: memory, utilization, power, energy, temperature.
void read_sample(Look& look, model::Device& device);
/// Sets throttle_reasons and health_reasons to the reasons why clocks are low. Returns false if the
/// driver did not answer.
bool read_throttle(Look& look, model::Device& device);
/// A MIG partition, and its memory, by its handle.
[[nodiscard]] model::Partition partition_of(Look& look, nvmlDevice_t handle, std::uint32_t index);
/// MIG partitions with their memory, if MIG is enabled. Call after read_identity.
void read_partitions(Look& look, model::Device& device);

/// Marks a device that the driver lost while Berth read it, or for which it returned `code` instead
/// of a handle.
void mark_unreadable(nvmlReturn_t code, model::Device& device);

}  // namespace berth::nvml
