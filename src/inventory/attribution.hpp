// Memory in use that no listed process accounts for: how much, and what is the likely reason. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/snapshot.hpp"
#include "system/process.hpp"

namespace berth::inventory {

/// How well the list of processes on a device can be trusted to be whole.
struct ListQuality {
  bool foreign_namespace = false;  // the driver's pids cannot be told apart from ours
  bool others_unreadable =
      false;  // the list was made from /proc, where the caller may not look at everybody
};

/// Bytes in use on `device` beyond its reserve and the processes that are listed on it; 0 where
/// that is within what the numbers' own inaccuracy explains, or cannot be said (the memory is the
/// host's, or not known).
[[nodiscard]] std::uint64_t unaccounted_bytes(const model::Device& device,
                                              const std::vector<model::DeviceProcess>& processes);

/// The device nodes whose holders matter for `device`: "/dev/nvidia0", "/dev/dri/renderD128".
[[nodiscard]] std::vector<std::string> nodes_of(const model::Device& device);

/// One row: memory, cause, and those holders of the device's nodes that the driver does not list
/// there.
[[nodiscard]] model::Unattributed explain(const model::Device& device, std::uint64_t bytes,
                                          const std::vector<model::DeviceProcess>& processes,
                                          const std::vector<system::NodeHolder>& holders,
                                          const ListQuality& quality);

}  // namespace berth::inventory
