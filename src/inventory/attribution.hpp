// Memory in use that no listed process accounts for: the amount and the likely cause. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/snapshot.hpp"
#include "system/process.hpp"

namespace berth::inventory {

/// What makes the list of processes on a device incomplete.
struct ListQuality {
  bool foreign_namespace = false;  // the driver's pids cannot be mapped to this namespace
  bool others_unreadable =
      false;  // the list comes from /proc, where the caller cannot read every process
};

/// Bytes in use on `device` in addition to its reserve and its listed processes. 0 if the
/// difference is within the tolerance of the numbers, or unknown (host memory, or no reading).
[[nodiscard]] std::uint64_t unaccounted_bytes(const model::Device& device,
                                              const std::vector<model::DeviceProcess>& processes);

/// The device nodes by which holders of the device are found: "/dev/nvidia0",
/// "/dev/dri/renderD128".
[[nodiscard]] std::vector<std::string> nodes_of(const model::Device& device);

/// Returns one row: the memory, its cause, and the processes that have the device's nodes open but
/// that the driver does not list.
[[nodiscard]] model::Unattributed explain(const model::Device& device, std::uint64_t bytes,
                                          const std::vector<model::DeviceProcess>& processes,
                                          const std::vector<system::NodeHolder>& holders,
                                          const ListQuality& quality);

}  // namespace berth::inventory
