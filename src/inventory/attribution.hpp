// Finds memory in use that belongs to no listed process: its amount and the likely cause. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/snapshot.hpp"
#include "system/process.hpp"

namespace berth::inventory {

/// Reasons why the list of processes on a device may be incomplete.
struct ListQuality {
  bool foreign_namespace = false;  // the driver's pids cannot be mapped to this namespace
  bool others_unreadable =
      false;  // the list comes from /proc, where the caller cannot read all processes
};

/// Returns the used memory of `device` minus its reserve and the memory of its listed processes.
/// Returns 0 if the difference is below the tolerance. Also returns 0 if it is not known (host
/// memory, or no value for used memory).
[[nodiscard]] std::uint64_t unaccounted_bytes(const model::Device& device,
                                              const std::vector<model::DeviceProcess>& processes);

/// The device nodes of the device. A process that has one of them open holds the device:
/// "/dev/nvidia0", "/dev/dri/renderD128".
[[nodiscard]] std::vector<std::string> nodes_of(const model::Device& device);

/// Returns one row for this memory: its amount, its likely cause, and the processes that have the
/// device's nodes open without being in the driver's list.
[[nodiscard]] model::Unattributed explain(const model::Device& device, std::uint64_t bytes,
                                          const std::vector<model::DeviceProcess>& processes,
                                          const std::vector<system::NodeHolder>& holders,
                                          const ListQuality& quality);

}  // namespace berth::inventory
