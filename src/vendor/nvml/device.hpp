// One NVIDIA GPU through the table of functions: what it is, what it reads, how it is. Nothing here
// keeps state between looks, so each device can be read in a thread of its own.
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

/// Name, uuid, PCI address and what else never changes, and the modes: 9 calls.
void read_identity(Look& look, model::Device& device);

struct Wanted {
  bool pcie_throughput = false;  // two calls that block 20 ms each
};
/// Memory, load, power, and what health is judged by: 9 calls. Call after read_identity.
void read_readings(Look& look, model::Device& device);
/// The other readings, which a slow driver's look may have no time for: 14 calls.
void read_more(Look& look, const Wanted& wanted, model::Device& device);
/// What `berth run` follows: memory, utilization, power, energy, temperature.
void read_sample(Look& look, model::Device& device);
/// MIG partitions with their memory, where MIG is on. Call after read_identity.
void read_partitions(Look& look, model::Device& device);

/// What a device is whose handle the driver refused with `code`, or that was lost on the way.
void mark_unreadable(nvmlReturn_t code, model::Device& device);

}  // namespace berth::nvml
