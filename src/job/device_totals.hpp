// Sums up how much all starts of a job used its devices. The starts do not overlap. Pure.
#pragma once

#include <chrono>
#include <vector>

#include "model/run.hpp"

namespace berth::job {

class DeviceTotals {
 public:
  DeviceTotals() = default;
  DeviceTotals(std::vector<model::DeviceUse> devices, std::chrono::milliseconds wall,
               double held_seconds)
      : devices_(std::move(devices)), wall_(wall), held_seconds_(held_seconds) {}

  /// Adds a later start. If both starts used a device, keeps the larger peaks, the mean weighted by
  /// time, and the sum of the energy. If a start was too short to measure its energy, that energy
  /// counts as 0.
  void add(const std::vector<model::DeviceUse>& devices, std::chrono::milliseconds wall);

  /// The devices of the last start are first.
  [[nodiscard]] const std::vector<model::DeviceUse>& devices() const { return devices_; }
  [[nodiscard]] std::chrono::milliseconds wall() const { return wall_; }
  /// The wall time of each start, multiplied by the number of its devices.
  [[nodiscard]] double held_seconds() const { return held_seconds_; }

 private:
  std::vector<model::DeviceUse> devices_;
  std::chrono::milliseconds wall_{0};  // the wall time of all starts together
  double held_seconds_ = 0;
};

}  // namespace berth::job
