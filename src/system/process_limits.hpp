// The limits of a process that its children inherit.
#pragma once

#include <sys/types.h>

#include "model/limits.hpp"

namespace berth::system {

/// 0: our own. Empty if unavailable: the process is gone, or belongs to another user and we are not
/// root.
[[nodiscard]] model::Limits limits_of(pid_t process);

/// Sets our own resource limits, nice value and oom_score_adj. If one fails, sets the others and
/// returns false with errno.
bool set_limits(const model::Limits& limits);

}  // namespace berth::system
