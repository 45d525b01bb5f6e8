// Counters of this process's control group: processes that the kernel killed for lack of memory,
// and time in which a CPU quota stopped the group.
#pragma once

#include <chrono>
#include <cstdint>

namespace berth::run {

/// 0 if the kernel does not count them.
[[nodiscard]] std::uint64_t oom_kills();
/// The largest value of the group and its visible ancestors; 0 without a quota.
[[nodiscard]] std::chrono::microseconds quota_stops();

}  // namespace berth::run
