#include "watch/budget.hpp"

#include <algorithm>

namespace berth::watch {

namespace {

/// Seconds before the first check of the cost, and between checks. The cost of the first 20 s is
/// ignored: it is higher, because it includes the start.
constexpr double kStart = 20, kWindow = 30;
/// Seconds between two samples. With a longer interval, UsageMeter would not count the use of a
/// device.
constexpr double kLongestInterval = 8;
/// Sampling becomes more frequent again only if it would then cost less than this fraction of the
/// budget.
constexpr double kWellBelow = 0.7;

}  // namespace

Budget::Budget(double interval_seconds) : scale_(std::max(1.0, 1 / interval_seconds)) {
  while (2 * most_ * interval_seconds <= kLongestInterval) most_ *= 2;
}

bool Budget::add(double wall_seconds, double cpu_seconds, double driver_seconds, int devices) {
  const bool is_first = wall_ < 0;
  if (wall_seconds < (is_first ? kStart : wall_ + kWindow)) return false;
  const double passed = wall_seconds - wall_;
  const double cpu = (cpu_seconds - cpu_) / passed / (kMostCpu * scale_);
  const double driver =
      (driver_seconds - driver_) / passed / (kMostDriver * scale_ * std::max(1, devices));
  wall_ = wall_seconds;
  cpu_ = cpu_seconds;
  driver_ = driver_seconds;
  if (is_first) return false;
  const double part = std::max(cpu, driver);
  const int before = stretch_;
  if (part > 1)
    stretch_ = std::min(2 * stretch_, most_);
  else if (2 * part < kWellBelow)
    stretch_ = std::max(stretch_ / 2, 1);
  return stretch_ != before;
}

}  // namespace berth::watch
