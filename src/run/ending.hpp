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
  /// The time between SIGTERM and SIGKILL, for processes that a job left behind.
  std::chrono::milliseconds grace{300};
  /// The time to wait after SIGKILL. Processes that still remain are stuck in the kernel or belong
  /// to another user.
  std::chrono::milliseconds patience{5'000};
  /// Time in which processes may end by themselves, as helpers do when their parent has ended.
  std::chrono::milliseconds head_start{0};
  /// If this function returns true, `head_start` ends early; may be empty.
  std::function<bool()> ends_head_start;
  /// Called once after `head_start` with the remaining processes, before they are ended; may be
  /// empty.
  std::function<void(const std::vector<Relative>&)> on_left_behind;
  // processes that must not be ended; their descendants are not ended either
  std::vector<pid_t> spared;
  /// Reaps ended processes. Returns true if none is left.
  std::function<bool()> none_left;
  /// Sleeps until a process ends, at most for this time. Returns true to skip the grace period.
  std::function<bool(std::chrono::milliseconds)> wait;
};

/// Ends all descendants except the spared ones. Returns how many could not be ended.
int end_descendants(const EndingPlan& plan);
/// The descendants that could not be ended because they wait in the kernel, where SIGKILL has no
/// effect.
[[nodiscard]] std::vector<model::ProcessId> stuck_descendants(
    const std::vector<pid_t>& spared = {});
/// Whether this process still exists and waits in the kernel.
[[nodiscard]] bool is_stuck(const model::ProcessId& process);

}  // namespace berth::run
