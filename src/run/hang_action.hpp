// What to do about a hang, besides reporting it: the values of --hang-action. Also has the defaults
// of the options about hangs and retries.
#pragma once

#include <chrono>

namespace berth::run {

enum class HangAction {
  kReport,
  kRetry,  // end all ranks, and start them again while tries are left
  kKill    // end all ranks and the job, even if tries are left
};

inline constexpr std::chrono::minutes kDefaultHangTimeout(10);
/// The shortest and the longest pause before another try.
inline constexpr std::chrono::seconds kDefaultBackoffLeast(1), kDefaultBackoffMost(60);

}  // namespace berth::run
