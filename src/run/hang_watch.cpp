#include "run/hang_watch.hpp"

#include <algorithm>
#include <utility>

#include "run/flight_recorder.hpp"
#include "run/native_stack.hpp"
#include "run/stacks.hpp"

namespace berth::run {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

// time limit for reading the stacks outside Python of all ranks
constexpr milliseconds kNativePatience(2'000);
// time limit for the answers of all flight recorders
constexpr milliseconds kFlightPatience(3'000);
constexpr milliseconds kLook(1'000);  // between two checks of the ranks' activity
/// If the ranks write nothing for this long, ask their flight recorders.
constexpr milliseconds kSilent(10'000);
/// After this time, the recorders have written their answers.
constexpr milliseconds kAnswer(3'000);
constexpr milliseconds kAskAgain(9'000);
/// A collective that the GPUs have begun hangs if it lasts this long.
constexpr milliseconds kStuckSeen(9'000);
/// A collective that the GPUs may not have begun yet hangs if it lasts this long.
constexpr milliseconds kUnknownSeen(60'000);
/// If no rank is active for this long, inspect the ranks' stacks.
constexpr milliseconds kHangSeen(10'000);
/// If the other ranks are idle for this long, a busy rank is slow.
constexpr milliseconds kSlowSeen(20'000);

std::vector<int> running(const std::vector<WatchedRank>& ranks) {
  std::vector<int> numbers;
  for (const WatchedRank& rank : ranks)
    if (rank.pid >= 0) numbers.push_back(rank.number);
  return numbers;
}

}  // namespace

void HangWatch::begin(std::string stack_folder, std::string flight_stem, Time now) {
  *this = {};
  stack_folder_ = std::move(stack_folder);
  flight_stem_ = std::move(flight_stem);
  begun_ = moved_ = looked_ = written_ = asked_ = now;
}

HangWatch::Time HangWatch::next_look() const {
  return looked_ + kLook;
}

std::optional<model::HangSeen> HangWatch::look(const std::vector<WatchedRank>& ranks,
                                               bool is_ending, Time now) {
  const bool moved = has_moved_since_last_look(ranks, now);
  looked_ = now;
  if (written_ == now) forget_stuck_collective();  // a rank that writes output makes progress
  std::optional<model::HangSeen> seen;
  if (moved || is_ending) {
    moved_ = now;
    is_hang_.reset();
    if (!is_ending) seen = slow_rank(ranks, now);
    if (!is_ending && !seen) seen = stuck_collective(ranks, now);
  } else if (!is_hang_ && now - moved_ >= kHangSeen) {
    seen = find_hang(states(ranks));
    is_hang_ = seen.has_value();
    if (seen) seen->silent = duration_cast<milliseconds>(Clock::now() - moved_);
  }
  if (seen) seen->after = duration_cast<milliseconds>(Clock::now() - begun_);
  if (seen) add_collectives(*seen);
  return seen;
}

void HangWatch::forget_stuck_collective() {
  collectives_.clear();
  stuck_since_.reset();
  is_stuck_ = is_stuck_slow_ = false;
}

void HangWatch::add_collectives(model::HangSeen& seen) const {
  if (flight_stem_.empty()) return;
  std::vector<int> running;
  for (const auto& rank : seen.ranks)
    if (!rank.has_ended) running.push_back(rank.rank);
  const auto found = ask_for_collectives(flight_stem_, running, kFlightPatience);
  for (auto& rank : seen.ranks)
    if (const auto at = found.find(rank.rank); at != found.end()) rank.collective = at->second;
}

bool HangWatch::has_hung_for(milliseconds time, Time now) const {
  if (is_stuck_ && stuck_since_ && now - *stuck_since_ >= time) return true;
  return is_hang_ == true && now - moved_ >= time;
}

std::vector<RankCollective> HangWatch::collectives_of(const std::vector<WatchedRank>& ranks,
                                                      Time now) const {
  const auto found = read_dumps(flight_stem_, running(ranks));
  std::vector<RankCollective> all;
  for (const WatchedRank& rank : ranks) {
    RankCollective& one = all.emplace_back();
    one.rank = rank.number;
    one.has_ended = rank.pid < 0;
    if (one.has_ended) continue;
    one.is_idle = now - activity_.at(rank.number).last >= kHangSeen;
    if (const auto at = found.find(rank.number); at != found.end()) one.last = at->second;
  }
  return all;
}

std::optional<model::HangSeen> HangWatch::stuck_collective(const std::vector<WatchedRank>& ranks,
                                                           Time now) {
  if (!is_asked_) {
    if (flight_stem_.empty() || now - written_ < kSilent || now - asked_ < kAskAgain)
      return std::nullopt;
    asked_before_ = std::exchange(asked_, now);
    is_asked_ = !request_dumps(flight_stem_, running(ranks)).empty();
    return std::nullopt;
  }
  if (now - asked_ < kAnswer) return std::nullopt;
  is_asked_ = false;
  auto answers = collectives_of(ranks, now);
  const auto stuck = find_stuck_collective(collectives_, answers);
  collectives_ = std::move(answers);
  if (!stuck) {
    stuck_since_.reset();
    is_stuck_ = is_stuck_slow_ = false;
    return std::nullopt;
  }
  if (!stuck_since_) stuck_since_ = asked_before_;
  const bool is_new = stuck->is_slow ? !is_stuck_slow_ : !is_stuck_;
  const auto needed = stuck->is_slow ? kSlowSeen : stuck->is_started ? kStuckSeen : kUnknownSeen;
  if (!is_new || now - *stuck_since_ < needed) return std::nullopt;
  (stuck->is_slow ? is_stuck_slow_ : is_stuck_) = true;
  model::HangSeen seen = describe(states(ranks));
  seen.odd_ranks = stuck->odd_ranks;
  seen.is_slow = stuck->is_slow;
  seen.silent = duration_cast<milliseconds>(now - *stuck_since_);
  return seen;
}

bool HangWatch::has_moved_since_last_look(const std::vector<WatchedRank>& ranks, Time now) {
  const double passed = std::chrono::duration<double>(now - looked_).count();
  const bool with_network = now - moved_ >= kAskForNetwork;
  bool moved = false;
  for (const WatchedRank& rank : ranks) {
    if (rank.pid < 0) continue;
    Activity& before = activity_.try_emplace(rank.number, Activity{{}, 0, begun_}).first->second;
    const Movement seen =
        with_network ? movement_with_network(rank.pid, meeting_ports_) : movement_of(rank.pid);
    if (rank.written > before.written) written_ = now;
    if (rank.written > before.written || has_moved(before.movement, seen, passed))
      before.last = now;
    moved = moved || before.last == now;
    before.movement = seen;
    before.written = rank.written;
  }
  return moved;
}

/// Finds busy ranks for which the others have waited for long. Such a job does not hang, but the
/// user may want to know about it.
std::optional<model::HangSeen> HangWatch::slow_rank(const std::vector<WatchedRank>& ranks,
                                                    Time now) {
  std::vector<int> idle;
  milliseconds shortest = milliseconds::max();
  for (const WatchedRank& rank : ranks) {
    if (rank.pid < 0) continue;
    const auto silent = duration_cast<milliseconds>(now - activity_.at(rank.number).last);
    if (silent < kSlowSeen) continue;
    idle.push_back(rank.number);
    shortest = std::min(shortest, silent);
  }
  if (idle == slow_seen_) return std::nullopt;
  slow_seen_ = idle;
  if (idle.empty()) return std::nullopt;
  auto all = states(ranks);
  for (RankState& state : all)
    state.is_busy = std::find(idle.begin(), idle.end(), state.rank) == idle.end();
  auto slow = find_slow_ranks(all);
  if (slow) slow->silent = shortest;
  return slow;
}

std::vector<RankState> HangWatch::states(const std::vector<WatchedRank>& ranks) const {
  std::vector<pid_t> processes;
  for (const WatchedRank& rank : ranks)
    if (rank.pid >= 0) processes.push_back(rank.pid);
  auto stacks = ask_for_stacks(stack_folder_, processes);
  std::vector<NativeThread> first_threads;
  for (const pid_t pid : processes) first_threads.push_back({pid, pid});
  const auto natives = native_stacks(first_threads, kNativePatience);
  std::size_t next = 0;
  std::vector<RankState> all;
  for (const WatchedRank& rank : ranks) {
    RankState& state = all.emplace_back();
    state.rank = rank.number;
    state.has_ended = rank.pid < 0;
    if (state.has_ended) continue;
    state.stack = std::move(stacks[rank.pid]);
    const auto threads = threads_of(rank.pid);
    if (!threads.empty()) state.waits_in = threads.front().waits_in;
    state.native = native_lines(natives[next++]);
  }
  return all;
}

}  // namespace berth::run
