// The counters of a running guarded job, read while its processes write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "guard/resize.hpp"

namespace berth::guard {

/// What one process did on one device. All values except `memory_bytes` and `spilled_bytes` are
/// sums since the start of the process.
struct LiveCounts {
  std::uint64_t memory_bytes = 0;  // in use now; 0 if the process has ended
  // in use now beyond the quota (--spill); not part of memory_bytes
  std::uint64_t spilled_bytes = 0;
  std::uint64_t allocations = 0, frees = 0, refusals = 0, launches = 0, copies = 0, fills = 0;
  std::uint64_t copied_to_bytes = 0, copied_from_bytes = 0, copied_on_bytes = 0,
                copied_other_bytes = 0, filled_bytes = 0;
  std::uint64_t device_nanoseconds = 0;  // 0: not measured, or the process used no device time
};
struct LiveProcess {
  // index of its entry in the counters; a later process may reuse the entry, and then adds to its
  // sums
  std::size_t place = 0;
  std::int64_t pid = 0;
  std::uint64_t start = 0;
  bool lives = false;
  std::vector<LiveCounts> devices;  // one entry for each device in LiveJob::devices
};
struct LiveDevice {
  std::string uuid;                           // 32 hexadecimal digits
  std::optional<std::uint64_t> memory_bytes;  // the memory limit
  std::optional<int> share_permille;
  std::uint64_t hidden_bytes = 0;  // memory of the job in addition to what its processes counted
  bool may_spill = false;          // --spill
};
struct LiveJob {
  std::uint64_t job = 0;  // the number of the job's lease; 0: the job has no lease
  std::vector<LiveDevice> devices;
  std::vector<LiveProcess> processes;
};

/// The counters of all running guarded jobs of this user.
[[nodiscard]] std::vector<LiveJob> live_jobs();
/// The counters of one job; nullopt if they cannot be read, because the job has ended.
[[nodiscard]] std::optional<LiveJob> live_job(const LiveLimits& of);

/// True if a process of the job runs without the guard. Such a process has no counters under any of
/// its pids (in this pid namespace or in those below it). False if the process has ended.
[[nodiscard]] bool lacks_guard(const LiveJob& job, std::int64_t pid,
                               const std::string& proc = "/proc");

}  // namespace berth::guard
