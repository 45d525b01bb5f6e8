#include "run/hang.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/file.hpp"
#include "run/socket_bytes.hpp"
#include "run/stacks.hpp"

namespace berth::run {
namespace {

std::string proc(pid_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

std::uint64_t number_behind(const std::string& text, std::string_view key) {
  const auto at = text.find(key);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

/// Adds what a process and its descendants have used. `sockets` receives the numbers of their
/// sockets; nullptr: not wanted.
void add_movement(pid_t pid, Movement& sum, std::set<std::uint64_t>* sockets, int depth) {
  constexpr int kDeepest = 4;
  const std::string stat = slurp(proc(pid, "stat")).value_or("");
  const auto close = stat.rfind(')');
  if (close == std::string::npos) return;
  const auto fields = split(std::string_view(stat).substr(close + 2), ' ');
  // the fields utime and stime of the process, and those of its reaped children
  for (std::size_t i = 11; i < 15 && i < fields.size(); ++i)
    sum.cpu_ticks += static_cast<std::uint64_t>(to_number(fields[i]).value_or(0));
  const std::string io = slurp(proc(pid, "io")).value_or("");
  sum.bytes += number_behind(io, "rchar: ") + number_behind(io, "wchar: ");
  // the fields majflt and cmajflt: how many pages of mapped files had to be read
  constexpr std::uint64_t kPage = 4096;
  for (std::size_t i = 9; i < 11 && i < fields.size(); ++i)
    sum.bytes += kPage * static_cast<std::uint64_t>(to_number(fields[i]).value_or(0));
  if (sockets != nullptr) sockets->merge(sockets_of(pid));
  if (depth >= kDeepest) return;
  const std::string self = "task/" + std::to_string(pid) + "/children";
  const std::string children = slurp(proc(pid, self.c_str())).value_or("");
  for (const std::string_view one : split(children, ' '))
    if (const auto child = to_number(one); child && *child > 0)
      add_movement(static_cast<pid_t>(*child), sum, sockets, depth + 1);
}

}  // namespace

std::optional<model::HangSeen> find_hang(const std::vector<RankState>& ranks) {
  model::HangSeen hang;
  std::map<std::string, int> lines;
  std::vector<int> not_waiting;
  int waiting = 0, connecting = 0;
  for (const RankState& one : ranks) {
    const auto threads = parse_stacks(one.stack);
    const PythonThread main_thread = threads.empty() ? PythonThread() : threads.back();
    const std::string where = innermost_user_line(main_thread);
    hang.ranks.push_back({one.rank, one.waits_in, one.stack, where, one.has_ended, one.native});
    if (!one.has_ended && is_in_collective(main_thread)) {
      ++waiting;
      connecting += is_connecting(main_thread) ? 1 : 0;
      ++lines[where];
    } else {
      not_waiting.push_back(one.rank);
    }
  }
  if (waiting == 0) return std::nullopt;
  hang.is_connecting = connecting == waiting;
  hang.odd_ranks = not_waiting;
  if (!not_waiting.empty() || lines.size() < 2) return hang;
  const auto most = std::max_element(
      lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const auto& one : hang.ranks)
    if (one.where != most->first) hang.odd_ranks.push_back(one.rank);
  return hang;
}

model::HangSeen describe(const std::vector<RankState>& ranks) {
  model::HangSeen seen;
  for (const RankState& one : ranks) {
    const auto threads = parse_stacks(one.stack);
    const std::string where =
        innermost_user_line(threads.empty() ? PythonThread() : threads.back());
    seen.ranks.push_back({one.rank, one.waits_in, one.stack, where, one.has_ended, one.native});
  }
  return seen;
}

std::optional<model::HangSeen> find_slow_ranks(const std::vector<RankState>& ranks) {
  model::HangSeen slow;
  slow.is_slow = true;
  bool has_waiting = false;
  slow.is_connecting = true;
  for (const RankState& one : ranks) {
    const auto threads = parse_stacks(one.stack);
    const PythonThread main_thread = threads.empty() ? PythonThread() : threads.back();
    slow.ranks.push_back({one.rank, one.waits_in, one.stack, innermost_user_line(main_thread),
                          one.has_ended, one.native});
    if (one.has_ended) continue;
    const bool waits = is_in_collective(main_thread);
    if (!one.is_busy && !waits) return std::nullopt;
    has_waiting = has_waiting || !one.is_busy;
    slow.is_connecting = slow.is_connecting && (one.is_busy || is_connecting(main_thread));
    if (one.is_busy && !waits && !main_thread.frames.empty()) slow.odd_ranks.push_back(one.rank);
  }
  if (!has_waiting || slow.odd_ranks.empty()) return std::nullopt;
  return slow;
}

std::optional<StuckCollective> find_stuck_collective(const std::vector<RankCollective>& before,
                                                     const std::vector<RankCollective>& now) {
  if (before.size() != now.size()) return std::nullopt;
  using Key = std::pair<std::string, std::int64_t>;
  const auto key_of = [](const RankCollective& one) {
    return Key{one.last->group, one.last->number};
  };
  const auto is_pending = [](const RankCollective& one) {
    return !one.has_ended && (one.last->state == "started" || one.last->state == "scheduled");
  };
  std::map<Key, int> pending;
  StuckCollective stuck;
  stuck.is_started = true;
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i].rank != before[i].rank || now[i].has_ended != before[i].has_ended)
      return std::nullopt;
    if (now[i].has_ended) continue;
    if (!now[i].last || before[i].last != now[i].last) return std::nullopt;
    if (!is_pending(now[i])) continue;
    ++pending[key_of(now[i])];
    stuck.is_started = stuck.is_started && now[i].last->state == "started";
  }
  if (pending.empty()) return std::nullopt;
  const auto most =
      std::max_element(pending.begin(), pending.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })->first;
  for (const RankCollective& one : now) {
    if (is_pending(one) && key_of(one) == most) continue;
    stuck.odd_ranks.push_back(one.rank);
    stuck.is_slow = stuck.is_slow || (!one.has_ended && !one.is_idle && !is_pending(one));
  }
  return stuck;
}

Movement movement_of(pid_t pid) {
  Movement sum;
  add_movement(pid, sum, nullptr, 0);
  return sum;
}

Movement movement_with_network(pid_t pid, const std::set<std::uint16_t>& without_ports) {
  Movement sum;
  CountedSockets sockets{{}, without_ports};
  add_movement(pid, sum, &sockets.numbers, 0);
  sum.network_bytes = socket_bytes(sockets);
  return sum;
}

bool has_moved(const Movement& before, const Movement& now, double seconds) {
  // a process that uses less than this fraction of one core is idle
  constexpr double kIdleShare = 0.02;
  constexpr std::uint64_t kIdleBytes = 4096;
  const double ticks = seconds * static_cast<double>(::sysconf(_SC_CLK_TCK)) * kIdleShare;
  return static_cast<double>(now.cpu_ticks) > static_cast<double>(before.cpu_ticks) + ticks + 1 ||
         now.bytes > before.bytes + kIdleBytes ||
         (before.network_bytes && now.network_bytes &&
          *now.network_bytes > *before.network_bytes + kIdleBytes);
}

}  // namespace berth::run
