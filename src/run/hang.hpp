// Detects whether idle ranks wait for each other for ever. Pure, except Movement, which reads
// /proc.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/tries.hpp"

namespace berth::run {

/// The state of one rank, after no rank has been active for a while.
struct RankState {
  int rank = 0;
  bool has_ended = false;  // exited with code 0; other ranks may still wait for it
  std::string stack;       // the Python stack, in faulthandler's format
  std::string waits_in;
  std::string native = {};  // the stack outside Python, in the form of native_lines()
  bool is_busy = false;     // uses the CPU, reads or writes
};

/// Finds the ranks that do not wait for other ranks while the rest do. If all ranks wait, finds
/// those that wait at another line of code than most ranks. nullopt if no rank is known to wait:
/// the ranks may just be idle.
[[nodiscard]] std::optional<model::HangSeen> find_hang(const std::vector<RankState>& ranks);

/// Describes where the ranks are, without deciding whether they hang.
[[nodiscard]] model::HangSeen describe(const std::vector<RankState>& ranks);

/// Finds busy ranks for which all other ranks wait in a collective. Such a job is slow, not hung.
/// nullopt if there are no such ranks, or if all of their stacks are unknown.
[[nodiscard]] std::optional<model::HangSeen> find_slow_ranks(const std::vector<RankState>& ranks);

/// The collective in which a rank is, as PyTorch's flight recorder reports it.
struct RankCollective {
  int rank = 0;
  bool has_ended = false;                 // exited with code 0
  bool is_idle = false;                   // the rank does not use the CPU
  std::optional<model::Collective> last;  // nullopt: its recorder did not answer
};

/// A collective that some ranks have begun, and that does not end.
struct StuckCollective {
  // the ranks that are not in this collective; empty: all ranks are in it
  std::vector<int> odd_ranks;
  bool is_slow = false;  // an odd rank is busy, so it may still join the collective
  /// Whether the GPUs are known to have begun the collective. If not, they may still compute what
  /// comes before it.
  bool is_started = false;
};
/// Compares what the ranks reported at two times. nullopt if a collective has ended in between, if
/// no collective is pending, or if a report is missing.
[[nodiscard]] std::optional<StuckCollective> find_stuck_collective(
    const std::vector<RankCollective>& before, const std::vector<RankCollective>& now);

/// What a process and its children have used so far: processor time; bytes that were read, written,
/// or loaded by page faults; bytes over TCP.
struct Movement {
  std::uint64_t cpu_ticks = 0, bytes = 0;
  std::optional<std::uint64_t> network_bytes;  // nullopt: not requested, or not known
};
[[nodiscard]] Movement movement_of(pid_t pid);
/// The values of movement_of(), and the bytes over TCP, which take longer to read. Call it before
/// judging that a process does nothing. `without_ports`: connections to and from these ports do not
/// count, because waiting ranks query MASTER_PORT a hundred times a second.
[[nodiscard]] Movement movement_with_network(pid_t pid,
                                             const std::set<std::uint16_t>& without_ports);
/// After this time without activity, read the network traffic as well.
inline constexpr std::chrono::seconds kAskForNetwork{3};
/// True if the activity is more than that of a polling thread.
[[nodiscard]] bool has_moved(const Movement& before, const Movement& now, double seconds);

}  // namespace berth::run
