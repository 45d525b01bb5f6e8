// The limits of a process, which its children inherit.
#pragma once

#include <sys/types.h>

#include "model/limits.hpp"

namespace berth::system {

/// The limits of a process; 0 is this process. Empty if they cannot be read. Causes: the process
/// has exited, or it belongs to another user and this process does not run as root.
[[nodiscard]] model::Limits limits_of(pid_t process);

/// Sets the resource limits, nice value and oom_score_adj of this process. If one cannot be set,
/// sets the others and returns false with errno.
bool set_limits(const model::Limits& limits);

}  // namespace berth::system
