// The limits of a running job. They are found by the job's number, and changed while its processes
// read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::guard {

struct LiveLimits {
  std::string folder;
  // limit of each device; the largest 64-bit number means that there is no limit
  std::uint64_t memory_bytes = 0;
  int share_permille = 0;  // 0: none
};
struct NewLimits {
  std::optional<std::uint64_t> memory_bytes;
  std::optional<int> share_permille;
};

/// Finds the limits of a running job by the job's number. Fails with kNotFound (E0522) if no
/// running job of this user with that number has the guard.
[[nodiscard]] Result<LiveLimits> limits_of(std::uint64_t job);
struct ContainerLimit {
  std::string uuid;                           // "GPU-6e4a0f0e-…"
  std::optional<std::uint64_t> memory_bytes;  // nullopt: no limit
};
/// Reads the limits of a container. `folder`: contains the guard's files of the container. Fails
/// with kUnavailable (E0520) if the limits cannot be read. In that case, the guard enforces
/// nothing.
[[nodiscard]] Result<std::vector<ContainerLimit>> limits_in_container(const std::string& folder);
/// Asks the job's `berth run` for new limits, and waits until the job's processes use them. The job
/// gets at most what the broker has granted. Fails with kUnavailable: E0520, or E0955 if `berth
/// run` does not answer or grants less than requested.
[[nodiscard]] Status set_limits(const LiveLimits& of, const NewLimits& to);
/// How much memory the job's living processes use on a single device. If the job has several
/// devices, the largest of these values. nullopt: the job's counters cannot be read, because it has
/// ended.
[[nodiscard]] std::optional<std::uint64_t> used_memory(const LiveLimits& of);

}  // namespace berth::guard
