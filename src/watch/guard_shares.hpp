// GuardShares: computes each guarded process's share of a device's time since the last process
// list. It uses the device time that the guard counts. Pure.
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
  /// Sets guard_percent of each process that has guard_device_seconds both now and at the last
  /// call.
  void fill(std::vector<model::DeviceProcess>& processes, Clock::time_point now);

 private:
  using Key = std::pair<int, std::pair<std::int64_t, std::uint64_t>>;  // device, pid, start time
  std::map<Key, double> seconds_;
  Clock::time_point at_{};
};

/// The process's share of the device's time in percent. If the guard has measured it, returns that;
/// if not, returns the driver's value.
[[nodiscard]] std::optional<double> time_share(const model::DeviceProcess& process);

}  // namespace berth::watch
