// Ends every process below this one: SIGTERM first, SIGKILL after a short grace period, until none
// is left. This process must be their subreaper. Then orphans (after setsid or a double fork)
// become our children and are found.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <vector>

#include "model/job.hpp"
#include "run/descendants.hpp"

namespace berth::run {

struct EndingPlan {
  std::chrono::milliseconds grace{
      300};  // between SIGTERM and SIGKILL, for processes that a job left behind
  std::chrono::milliseconds patience{
      5'000};  // after SIGKILL; remaining ones are stuck in the kernel or belong to another user
  /// Time in which processes may end by themselves, as helpers do when their parent has ended.
  std::chrono::milliseconds head_start{0};
  /// True ends that time early; may be empty.
  std::function<bool()> ends_head_start;
  /// Called once after that time with the remaining processes, before they are ended; may be empty.
  std::function<void(const std::vector<Relative>&)> on_left_behind;
  std::vector<pid_t> spared;  // together with all their descendants
  /// Reaps ended processes. Returns true if none is left.
  std::function<bool()> none_left;
  /// Sleeps until a process ends, at most for this time. Returns true to skip the grace period.
  std::function<bool(std::chrono::milliseconds)> wait;
};

/// Returns how many are left.
int end_descendants(const EndingPlan& plan);
/// Those that are left because they wait in the kernel, where SIGKILL has no effect.
[[nodiscard]] std::vector<model::ProcessId> stuck_descendants(
    const std::vector<pid_t>& spared = {});
/// Whether this process is there and waits in the kernel.
[[nodiscard]] bool is_stuck(const model::ProcessId& process);

}  // namespace berth::run
