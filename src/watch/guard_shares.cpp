#include "watch/guard_shares.hpp"

#include <algorithm>

namespace berth::watch {

void GuardShares::fill(std::vector<model::DeviceProcess>& processes, Clock::time_point now) {
  const double passed = std::chrono::duration<double>(now - at_).count();
  std::map<Key, double> seconds;
  for (model::DeviceProcess& process : processes) {
    process.guard_percent.reset();
    if (!process.pid || !process.guard_device_seconds) continue;
    const Key key{process.device, {*process.pid, process.start_ticks.value_or(0)}};
    seconds[key] = *process.guard_device_seconds;
    const auto before = seconds_.find(key);
    if (before == seconds_.end() || passed <= 0 || seconds[key] < before->second) continue;
    process.guard_percent = std::min(100.0, 100 * (seconds[key] - before->second) / passed);
  }
  seconds_ = std::move(seconds);
  at_ = now;
}

std::optional<double> time_share(const model::DeviceProcess& process) {
  if (process.guard_percent) return process.guard_percent;
  return process.sm_percent ? std::optional(*process.sm_percent) : std::nullopt;
}

}  // namespace berth::watch
