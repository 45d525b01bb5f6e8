// Budget: limits the cost of sampling. If sampling costs more than its budget, it becomes less
// frequent. Pure.
#pragma once

namespace berth::watch {

/// The budget per second of elapsed time: CPU seconds of the sampler's thread, and seconds inside
/// the driver for each device.
inline constexpr double kMostCpu = 0.02, kMostDriver = 0.05;

class Budget {
 public:
  /// `interval_seconds`: the interval that the user requested. If it is shorter than a second, the
  /// budget is larger.
  explicit Budget(double interval_seconds);
  /// Takes the total costs since the start of sampling. Returns true if stretch() has changed.
  bool add(double wall_seconds, double cpu_seconds, double driver_seconds, int devices);
  /// The factor by which the requested interval is multiplied to stay within the budget.
  [[nodiscard]] int stretch() const { return stretch_; }

 private:
  double scale_;
  int most_ = 1, stretch_ = 1;
  double wall_ = -1, cpu_ = 0, driver_ = 0;  // the totals at the last check
};

}  // namespace berth::watch
