// Detects whether idle ranks wait for each other for ever. Pure, except Movement, which reads
// /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/tries.hpp"

namespace berth::run {

/// The state of one rank, after no rank has been active for a while.
struct RankState {
  int rank = 0;
  bool has_ended = false;  // with exit code 0; others may wait for it
  std::string stack;       // in faulthandler's format
  std::string waits_in;
  std::string native = {};  // as native_lines
  bool is_busy = false;     // uses the CPU, reads or writes
};

/// Finds the ranks that do not wait for other ranks while the rest do. If all ranks wait, finds
/// those that wait at another line than most ranks. nullopt if no rank is known to wait: the ranks
/// may just be idle.
[[nodiscard]] std::optional<model::HangSeen> find_hang(const std::vector<RankState>& ranks);

/// Finds busy ranks for which all other ranks wait in a collective. Such a job is slow, not hung.
/// nullopt if there are none, or if the stack of no busy rank is known.
[[nodiscard]] std::optional<model::HangSeen> find_slow_ranks(const std::vector<RankState>& ranks);

/// What a process and its children have used so far: processor time, bytes read and written.
struct Movement {
  std::uint64_t cpu_ticks = 0, bytes = 0;
};
[[nodiscard]] Movement movement_of(pid_t pid);
/// True if the activity is more than that of a polling thread.
[[nodiscard]] bool has_moved(const Movement& before, const Movement& now, double seconds);

}  // namespace berth::run
