// Ends every process below this one: a friendly SIGTERM first, SIGKILL after a short grace, until
// none is left. This process must be their subreaper, so that whoever loses its parent meanwhile
// (setsid, double fork) becomes a child of ours and is found.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <vector>

#include "run/descendants.hpp"

namespace berth::run {

struct EndingPlan {
  std::chrono::milliseconds grace{300};  // between SIGTERM and SIGKILL, of what a job leaves behind
  std::chrono::milliseconds patience{
      5'000};  // after SIGKILL: what is left then sits in the kernel or is another user's
  /// So long what ends by itself, as helpers do when their parent is gone, is left alone.
  std::chrono::milliseconds head_start{0};
  /// Told once what is there after that, before it is ended; may be empty.
  std::function<void(const std::vector<Relative>&)> on_left_behind;
  std::vector<pid_t> spared;  // with all below them
  /// Reaps what has ended; true when nothing is left.
  std::function<bool()> none_left;
  /// Sleeps at most so long or until something ended; true: be quick, skip the grace.
  std::function<bool(std::chrono::milliseconds)> wait;
};

/// How many are left.
int end_descendants(const EndingPlan& plan);

}  // namespace berth::run
