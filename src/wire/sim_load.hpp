// Computes the readings of a simulated device at a given time, as a pure function of machine, seed,
// time and faults. It uses integers, because the simulated driver has no libm. The load is smooth
// noise with a period of 256 s, so that the energy counter can be computed as a finite sum. Ended
// processes no longer count for load and memory, but the energy counter never decreases.
#pragma once

#include "wire/sim_state.hpp"

namespace berth::wire::sim {

inline constexpr std::uint64_t kMillisecond = 1'000'000, kSecond = 1'000'000'000;
inline constexpr std::uint64_t kPeriodSeconds = 256;
/// The driver's sample period (nvml.h: from 1/6 s to 1 s). It must divide a second evenly.
inline constexpr std::uint64_t kSamplePeriod = 200 * kMillisecond;

// Mixes two numbers with splitmix64.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a + 0x9e3779b97f4a7c15 * (b + 1);
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111eb;
  return z ^ (z >> 31U);
}

/// Smooth noise from 0 to 1000: a random value every two seconds, and straight lines between them.
constexpr std::uint32_t wave(std::uint64_t seed, std::uint64_t stream, std::uint64_t time) {
  constexpr std::uint64_t kKnot = 2 * kSecond, kKnots = kPeriodSeconds / 2;
  const std::uint64_t key = mix(seed, stream), knot = time / kKnot % kKnots;
  const std::uint64_t a = mix(key, knot) % 1001, b = mix(key, (knot + 1) % kKnots) % 1001;
  const std::uint64_t part = time % kKnot / kMillisecond;  // 0…1999
  return static_cast<std::uint32_t>((a * (2000 - part) + b * part) / 2000);
}

/// The first fault of this kind that affects the device at this time; nullptr if there is none.
inline const Fault* fault_of(const View& view, FaultKind kind, std::uint32_t device,
                             std::uint64_t time) {
  for (std::uint32_t i = 0; i < view.state().faults; ++i) {
    const Fault& fault = view.fault(i);
    if (fault.kind == kind && (fault.device == kNone || fault.device == device) &&
        time >= fault.from)
      return &fault;
  }
  return nullptr;
}

inline constexpr std::uint64_t kThermalReasons =
    0x60;  // clock event bits of NVML: software and hardware thermal slowdown

/// The readings of one device at one time.
class Moment {
 public:
  Moment(const View& view, std::uint32_t device, std::uint64_t time)
      : view_(view), device_(view.device(device)), index_(device), time_(time) {}

  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] std::uint64_t time() const { return time_; }
  [[nodiscard]] const Fault* fault(FaultKind kind) const {
    return fault_of(view_, kind, index_, time_);
  }

  /// Utilization in percent, in the last complete sample period.
  [[nodiscard]] std::uint32_t utilization() const {
    return utilization_at(mean_load(false), sampled(time_));
  }
  [[nodiscard]] std::uint32_t memory_utilization() const { return utilization() * 55 / 100; }
  /// The part of the utilization that this process causes, in percent.
  [[nodiscard]] std::uint32_t share_of(const Process& process) const {
    const std::uint32_t sum = activity(false);
    return sum == 0 ? 0 : utilization() * process.activity / sum;
  }

  [[nodiscard]] std::uint64_t process_memory(std::uint32_t process) const {
    const Process& p = view_.process(process);
    if (p.memory_swing == 0) return p.memory;
    constexpr std::uint64_t kPage = 2U << 20U;  // the driver allocates memory in pages of this size
    return p.memory - p.memory_swing / 1000 * wave(view_.state().seed, 0x10000 + process, time_) /
                          kPage * kPage;
  }
  /// The used memory of a partition, or of the whole device if `partition` is kNone. Reserved
  /// memory does not count.
  [[nodiscard]] std::uint64_t memory_used(std::uint32_t partition = kNone) const {
    std::uint64_t sum = 0;
    for_processes([&](std::uint32_t i, const Process& p) {
      if (partition == kNone || p.partition == partition) sum += process_memory(i);
    });
    if (partition != kNone) return sum;
    if (const Fault* zombie = fault(kZombie)) sum += zombie->value;
    const std::uint64_t most = device_.memory_total - device_.memory_reserved;
    return sum < most ? sum : most;
  }

  [[nodiscard]] bool has_process() const {
    bool any = false;
    for_processes(
        [&](std::uint32_t, const Process& p) { any = any || (p.use & (kCompute | kMps)) != 0; });
    return any;
  }
  [[nodiscard]] bool idle() const { return mean_load(false) == 0; }

  /// Power in milliwatts, as a mean of the last second.
  [[nodiscard]] std::uint32_t power() const {
    const std::uint32_t plain = power_at(mean_load(false), time_);
    return fault(kThrottle) == nullptr ? plain : throttled(plain);
  }
  /// Energy in millijoules since the driver was loaded.
  [[nodiscard]] std::uint64_t energy() const {
    const std::uint32_t load = mean_load(true);
    const std::uint64_t plain = energy_until(load, time_);
    const Fault* slowed = fault(kThrottle);
    if (slowed == nullptr) return device_.energy_base + plain;
    const std::uint64_t before = energy_until(load, slowed->from);
    return device_.energy_base + before + (plain - before) / 10 * 7;
  }
  /// Temperature in degrees Celsius. It follows the load of the last 30 s.
  [[nodiscard]] std::uint32_t temperature() const {
    const Fault* slowed = fault(kThrottle);
    if (slowed != nullptr && (slowed->value & kThermalReasons) != 0)
      return device_.temperature_slowdown;
    const std::uint32_t load = mean_load(false);
    std::uint32_t sum = 0;
    for (std::uint64_t i = 0; i < 8; ++i)
      sum += utilization_at(load, sampled(earlier(i * 4 * kSecond)));
    return device_.temperature_idle +
           (device_.temperature_busy - device_.temperature_idle) * sum / 800;
  }
  [[nodiscard]] std::uint32_t fan_percent() const {
    const std::uint32_t above = temperature() - device_.temperature_idle;
    return 30 + above * 60 / (device_.temperature_slowdown - device_.temperature_idle);
  }
  [[nodiscard]] std::uint32_t clock_graphics() const {
    if (idle() && !has_process()) return device_.clock_graphics_idle;
    const std::uint32_t busy =
        device_.clock_graphics_max - device_.clock_graphics_max / 10 * utilization() / 100;
    const std::uint32_t step =
        (fault(kThrottle) != nullptr ? busy / 2 : busy) / 15 * 15;  // in steps of 15 MHz
    return step < device_.clock_graphics_idle ? device_.clock_graphics_idle : step;
  }
  [[nodiscard]] std::uint32_t clock_memory() const {
    return idle() && !has_process() ? device_.clock_memory_idle : device_.clock_memory_max;
  }
  [[nodiscard]] std::uint32_t clock_video() const {
    return clock_graphics() * device_.clock_video_max /
           (device_.clock_graphics_max == 0 ? 1 : device_.clock_graphics_max);
  }
  [[nodiscard]] std::uint32_t performance_state() const {
    return idle() && !has_process() ? device_.performance_idle : device_.performance_busy;
  }
  [[nodiscard]] std::uint32_t pcie_generation() const {
    return idle() && !has_process() ? device_.pcie_generation_idle : device_.pcie_generation_max;
  }
  /// Clock event bits as in NVML: idle, or those of a fault.
  [[nodiscard]] std::uint64_t throttle_reasons() const {
    if (const Fault* slowed = fault(kThrottle)) return slowed->value;
    return idle() ? 1 : 0;
  }
  /// Traffic over PCIe in one direction, in kilobytes per second.
  [[nodiscard]] std::uint32_t pcie_kilobytes(bool receive) const {
    return utilization() * device_.pcie_width * 800 * (receive ? 2 : 1);
  }
  /// Traffic over all NVLinks in one direction, in KiB since the simulation started. Never
  /// decreases.
  [[nodiscard]] std::uint64_t nvlink_kibibytes(bool receive) const {
    const std::uint64_t a_second =
        std::uint64_t{mean_load(true)} * device_.nvlinks * 1024 * (receive ? 4 : 3);
    return time_ / kMillisecond * a_second / 1000;
  }

  template <typename Visit>
  void for_processes(Visit&& visit) const {
    for (std::uint32_t i = device_.process_first; i < device_.process_first + device_.process_count;
         ++i)
      if (!view_.is_gone(i)) visit(i, view_.process(i));
  }

 private:
  [[nodiscard]] std::uint64_t earlier(std::uint64_t by) const {
    return time_ < by ? 0 : time_ - by;
  }
  static constexpr std::uint64_t sampled(std::uint64_t time) {
    return time / kSamplePeriod * kSamplePeriod;
  }

  [[nodiscard]] std::uint32_t activity(bool ended_too) const {
    std::uint32_t sum = 0;
    for (std::uint32_t i = device_.process_first; i < device_.process_first + device_.process_count;
         ++i)
      if (ended_too || !view_.is_gone(i)) sum += view_.process(i).activity;
    return sum;
  }
  [[nodiscard]] std::uint32_t mean_load(bool ended_too) const {
    const std::uint32_t sum = device_.base_load + activity(ended_too);
    return sum < 100 ? sum : 100;
  }
  /// The utilization at a time, in percent. It varies between 70 % and 100 % of the mean `load`.
  [[nodiscard]] std::uint32_t utilization_at(std::uint32_t load, std::uint64_t time) const {
    return load * (700 + wave(view_.state().seed, index_, time) * 3 / 10) / 1000;
  }
  [[nodiscard]] std::uint32_t power_at(std::uint32_t load, std::uint64_t time) const {
    std::uint32_t sum = 0;
    for (std::uint64_t i = 0; i < 3; ++i)
      sum += utilization_at(load, sampled(time < i * kSecond / 3 ? 0 : time - i * kSecond / 3));
    const std::uint64_t range = device_.power_limit - device_.power_idle;
    return device_.power_idle + static_cast<std::uint32_t>(range * 95 / 100 * sum / 300);
  }
  static constexpr std::uint32_t throttled(std::uint32_t power) { return power / 10 * 7; }
  [[nodiscard]] std::uint64_t energy_until(std::uint32_t load, std::uint64_t time) const {
    const std::uint64_t seconds = time / kSecond, rest = seconds % kPeriodSeconds;
    std::uint64_t period = 0, part = 0;
    for (std::uint64_t s = 0; s < (seconds < kPeriodSeconds ? rest : kPeriodSeconds); ++s) {
      if (s == rest) part = period;
      // One milliwatt for one second is one millijoule.
      period += power_at(load, (s + kPeriodSeconds) * kSecond);
    }
    if (seconds < kPeriodSeconds) part = period;
    const std::uint64_t last = power_at(load, (seconds + kPeriodSeconds) * kSecond) *
                               (time % kSecond / kMillisecond) / 1000;
    return seconds / kPeriodSeconds * period + part + last;
  }

  const View& view_;
  const Device& device_;
  std::uint32_t index_;
  std::uint64_t time_;
};

}  // namespace berth::wire::sim
