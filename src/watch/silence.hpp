// Silence: decides from the times of earlier answers whether a device still answers. A driver that
// has always been slow gets more time, so that it causes no alert. Pure.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace berth::watch {

class Silence {
 public:
  using Clock = std::chrono::steady_clock;

  /// `initialisation`: the longest time that the driver's initialization may take.
  Silence(Clock::duration interval, Clock::duration initialisation);

  void set_interval(Clock::duration interval) { interval_ = interval; }
  /// Call this when the driver starts to initialize. Samples follow later.
  void begin(Clock::time_point now);
  /// Call this when the driver is initialized.
  void ready(Clock::time_point now);
  /// Call this when sampling ends. From then on, only full snapshots read the devices.
  void stop() { is_sampled_ = false; }
  /// Call this for each sample of a device. `read`: when the sample's driver calls began. `took`:
  /// how long they took.
  void sampled(const std::string& key, Clock::time_point read, Clock::duration took);
  /// Call this if a full snapshot contains readings of the device.
  void seen(const std::string& key, Clock::time_point now);
  /// Call this if this process was stopped for `pause`, and so could receive no samples.
  void add_pause(Clock::duration pause);

  [[nodiscard]] Clock::duration age(const std::string& key, Clock::time_point now) const;
  /// Whether the readings are so old that their age should be shown with them.
  [[nodiscard]] bool is_old(const std::string& key, Clock::time_point now) const;
  /// Whether the readings are so old that the device counts as "no answer".
  [[nodiscard]] bool is_silent(const std::string& key, Clock::time_point now) const;
  /// Returns the time from which the device counts as silent if no further answer comes.
  [[nodiscard]] Clock::time_point silent_at(const std::string& key) const;
  /// Whether the device is in full snapshots, but no sample of it has come for `longest`.
  [[nodiscard]] bool is_missed(const std::string& key, Clock::time_point now,
                               Clock::duration longest) const;

 private:
  struct Device {
    std::optional<Clock::time_point> read, sampled;
    Clock::duration longest_gap{};  // longest time between two recent samples
  };
  [[nodiscard]] Clock::duration least() const;

  Clock::duration interval_, initialisation_;
  Clock::time_point begun_{};
  std::optional<Clock::time_point> ready_;
  std::optional<Clock::duration> initialised_in_;  // duration of the last initialization
  bool is_sampled_ = false;
  std::map<std::string, Device> devices_;
};

}  // namespace berth::watch
