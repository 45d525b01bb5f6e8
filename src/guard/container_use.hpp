// How much memory the programs with the guard use in a container. The counters are read on the
// node, where the container's pids are not valid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::guard {

struct CountedUse {
  std::string uuid;         // a device that has a limit in the container
  std::uint64_t bytes = 0;  // upper bound of the memory that processes with the guard use
  // number of processes with the guard; includes killed ones that are still counted
  std::uint32_t processes = 0;
};

/// Reads how much memory the guard counted on each device. A killed process is counted until a new
/// one takes over its entry, so the result may be too large, but is never too small. `folder`: has
/// the files `limits` and `usage`. Fails with kUnavailable (E0520).
[[nodiscard]] Result<std::vector<CountedUse>> counted_in_container(const std::string& folder);

}  // namespace berth::guard
