// Budget: keeps the sampler's own cost within limits. If sampling costs more, it becomes less
// frequent. Pure.
#pragma once

namespace berth::watch {

/// CPU time of the sampler's thread, and time inside a driver for each device; in seconds per
/// second.
inline constexpr double kMostCpu = 0.02, kMostDriver = 0.05;

class Budget {
 public:
  /// `interval_seconds`: the interval that was asked for. If it is less than a second, sampling may
  /// cost more.
  explicit Budget(double interval_seconds);
  /// Takes the total cost of sampling since its start. Returns true if stretch() has changed.
  bool add(double wall_seconds, double cpu_seconds, double driver_seconds, int devices);
  /// The factor by which the interval must be multiplied.
  [[nodiscard]] int stretch() const { return stretch_; }

 private:
  double scale_;
  int most_ = 1, stretch_ = 1;
  double wall_ = -1, cpu_ = 0, driver_ = 0;  // at the last decision
};

}  // namespace berth::watch
