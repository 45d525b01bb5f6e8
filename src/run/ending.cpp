#include "run/ending.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace berth::run {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Waits until `deadline` for the last process to end; true if it ended.
bool wait_until(const EndingPlan& plan, Clock::time_point deadline,
                const std::function<bool()>& ends_early = {}) {
  for (;;) {
    if (plan.none_left()) return true;
    if (ends_early && ends_early()) return false;
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left <= milliseconds(0) || plan.wait(left)) return plan.none_left();
  }
}

}  // namespace

int end_descendants(const EndingPlan& plan) {
  if (plan.none_left()) return 0;
  if (plan.head_start > milliseconds(0) &&
      wait_until(plan, Clock::now() + plan.head_start, plan.ends_head_start))
    return 0;
  auto found = descendants_except(plan.spared);
  if (plan.on_left_behind) plan.on_left_behind(found);
  signal_all(found, SIGTERM);
  signal_all(found, SIGCONT);  // a stopped process would ignore SIGTERM until it is continued
  if (wait_until(plan, Clock::now() + plan.grace)) return 0;

  const auto deadline = Clock::now() + plan.patience;
  milliseconds pause(1);
  while (Clock::now() < deadline) {
    // Scan again each time: a process that was forked during the last scan has become our child and
    // is found now.
    found = descendants_except(plan.spared);
    const int refused = signal_all(found, SIGKILL);
    if (wait_until(plan, Clock::now() + pause)) return 0;
    const bool only_refused = refused > 0 && static_cast<std::size_t>(refused) == found.size();
    if (only_refused && pause > milliseconds(20)) break;
    pause = std::min(pause * 2, milliseconds(50));
  }
  return plan.none_left()
             ? 0
             : std::max<int>(1, static_cast<int>(descendants_except(plan.spared).size()));
}

std::vector<model::ProcessId> stuck_descendants(const std::vector<pid_t>& spared) {
  std::vector<model::ProcessId> stuck;
  for (const Relative& one : descendants_except(spared))
    if (one.stat.state == 'D') stuck.push_back({one.pid, one.stat.start_ticks});
  return stuck;
}

bool is_stuck(const model::ProcessId& process) {
  const auto stat = read_stat("/proc", static_cast<pid_t>(process.pid));
  return stat && stat->start_ticks == process.start_ticks && stat->state == 'D';
}

}  // namespace berth::run
