// The limits of a process, as the kernel tells and takes them.
#pragma once

#include <sys/types.h>

#include "model/limits.hpp"

namespace berth::system {

/// 0: our own. Empty where the kernel does not tell: it is gone, or another user's and we are not
/// root.
[[nodiscard]] model::Limits limits_of(pid_t process);

/// Ours, from now on. False where one of them could not be set, errno says why; the others are.
bool set_limits(const model::Limits& limits);

}  // namespace berth::system
