// Readings of one GPU that are means between two samples: the activity of parts of the chip (GPM,
// Hopper and later), and the traffic of its NVLinks. One object per device and thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "model/device.hpp"
#include "vendor/nvml/value.hpp"

namespace berth::nvml {

/// The number of NVLinks, how many of them are active, and where these lead. Needs up to three
/// calls per link.
void read_nvlinks(Look& look, model::Device& device);

class Activity {
 public:
  explicit Activity(const Api& api) : api_(api) {}
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  /// Sets sm_active_percent, tensor_active_percent and dram_active_percent: means since the last
  /// call. Two calls to the driver.
  void read_parts(Look& look, Look::Clock::time_point now, model::DeviceReadings& readings);
  /// Sets nvlink_rx_bytes_per_second and nvlink_tx_bytes_per_second: means since the last call. One
  /// call to the driver.
  void read_nvlink_rates(Look& look, Look::Clock::time_point now, model::DeviceReadings& readings);

 private:
  [[nodiscard]] std::optional<model::Absence> open(Look& look);

  const Api& api_;
  bool is_asked_ = false;  // the driver was asked whether the device supports GPM
  std::optional<model::Absence> unsupported_;  // why it does not
  std::array<nvmlGpmSample_t, 2> samples_{};   // the last sample and the one before
  std::optional<Look::Clock::time_point> sampled_at_;
  std::optional<Look::Clock::time_point> counted_at_;
  std::array<model::Reading<std::uint64_t>, 2> counted_;  // received, sent; bytes
};

}  // namespace berth::nvml
