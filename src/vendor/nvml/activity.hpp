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

/// Reads the number of NVLinks, how many of them are active, and the device at the other end of
/// each. Needs up to three driver calls per link.
void read_nvlinks(Look& look, model::Device& device);

class Activity {
 public:
  explicit Activity(const Api& api) : api_(api) {}
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  /// Sets sm_active_percent, tensor_active_percent and dram_active_percent to the means since the
  /// last call. Calls the driver twice.
  void read_parts(Look& look, Look::Clock::time_point now, model::DeviceReadings& readings);
  /// Sets nvlink_rx_bytes_per_second and nvlink_tx_bytes_per_second to the means since the last
  /// call. Calls the driver once.
  void read_nvlink_rates(Look& look, Look::Clock::time_point now, model::DeviceReadings& readings);

 private:
  [[nodiscard]] std::optional<model::Absence> open(Look& look);

  const Api& api_;
  bool is_asked_ = false;  // the driver was asked whether the device supports GPM
  std::optional<model::Absence> unsupported_;  // why the device does not support GPM
  std::array<nvmlGpmSample_t, 2> samples_{};   // the two last samples
  std::optional<Look::Clock::time_point> sampled_at_;
  std::optional<Look::Clock::time_point> counted_at_;
  /// Bytes received and sent at the last call.
  std::array<model::Reading<std::uint64_t>, 2> counted_;
};

}  // namespace berth::nvml
