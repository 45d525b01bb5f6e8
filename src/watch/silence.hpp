// Silence: decides whether a device still answers its driver, from the times of its earlier
// answers. A driver that has been slow gets more time, so that it causes no alert. Pure.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace berth::watch {

class Silence {
 public:
  using Clock = std::chrono::steady_clock;

  /// `initialisation`: how long the driver may need until it can be sampled.
  Silence(Clock::duration interval, Clock::duration initialisation);

  void set_interval(Clock::duration interval) { interval_ = interval; }
  /// Call it when the driver starts to initialize again; sampling follows.
  void begin(Clock::time_point now);
  /// Call it when the driver is initialized.
  void ready(Clock::time_point now);
  /// Call it when the devices are no longer sampled, and only full snapshots read them.
  void stop() { is_sampled_ = false; }
  /// Call it for each sample of this device. `read`: when reading began; `took`: how long it took.
  void sampled(const std::string& key, Clock::time_point read, Clock::duration took);
  /// Call it if a full snapshot has readings of this device.
  void seen(const std::string& key, Clock::time_point now);
  /// Call it if this process did not run for `pause`, so that no answer could be received.
  void add_pause(Clock::duration pause);

  [[nodiscard]] Clock::duration age(const std::string& key, Clock::time_point now) const;
  /// Whether the readings are so old that their age must be shown beside them.
  [[nodiscard]] bool is_old(const std::string& key, Clock::time_point now) const;
  /// Whether the readings are so old that the device counts as one that does not answer.
  [[nodiscard]] bool is_silent(const std::string& key, Clock::time_point now) const;
  /// When the device counts as silent if there is no further answer.
  [[nodiscard]] Clock::time_point silent_at(const std::string& key) const;
  /// Whether a full snapshot has seen the device, but no sample came for `longest`.
  [[nodiscard]] bool is_missed(const std::string& key, Clock::time_point now,
                               Clock::duration longest) const;

 private:
  struct Device {
    std::optional<Clock::time_point> read, sampled;
    Clock::duration longest_gap{};  // between samples, not long ago
  };
  [[nodiscard]] Clock::duration least() const;

  Clock::duration interval_, initialisation_;
  Clock::time_point begun_{};
  std::optional<Clock::time_point> ready_;
  std::optional<Clock::duration> initialised_in_;  // the last time
  bool is_sampled_ = false;
  std::map<std::string, Device> devices_;
};

}  // namespace berth::watch
