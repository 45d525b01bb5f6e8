// Whether ranks that do nothing wait for each other for ever. Pure, but for Movement, which reads
// /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/tries.hpp"

namespace berth::run {

/// One rank, when none had moved for a while.
struct RankSight {
  int rank = 0;
  bool has_ended = false;  // with exit code 0: its peers may wait for it
  std::string stack;       // as faulthandler writes it
  std::string waits_in;
};

/// The odd ranks are those that do not wait for others, while others do; if all wait, those that
/// wait at another line than most. nullopt where no rank is known to wait: then they may just be
/// idle.
[[nodiscard]] std::optional<model::HangSeen> judge_hang(const std::vector<RankSight>& ranks);

/// What a process and its children have done so far: processor time, bytes read and written.
struct Movement {
  std::uint64_t cpu_ticks = 0, bytes = 0;
};
[[nodiscard]] Movement movement_of(pid_t pid);
/// More than a thread that only polls.
[[nodiscard]] bool has_moved(const Movement& before, const Movement& now, double seconds);

}  // namespace berth::run
