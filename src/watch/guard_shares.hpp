// GuardShares: computes which share of a device's time a process of a guarded job had since the
// last process list. Uses the device time that the guard counts. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "model/process.hpp"

namespace berth::watch {

class GuardShares {
 public:
  using Clock = std::chrono::steady_clock;
  /// Sets guard_percent of the processes that have guard_device_seconds now and had it before.
  void fill(std::vector<model::DeviceProcess>& processes, Clock::time_point now);

 private:
  using Key = std::pair<int, std::pair<std::int64_t, std::uint64_t>>;  // device, pid, start
  std::map<Key, double> seconds_;
  Clock::time_point at_{};
};

/// The share of the device's time that a process has, in percent: as the guard measured it, else as
/// the driver reports it.
[[nodiscard]] std::optional<double> time_share(const model::DeviceProcess& process);

}  // namespace berth::watch
