// What the samples of one device add up to while a job runs. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "model/device.hpp"
#include "model/process.hpp"
#include "model/run.hpp"

namespace berth::run {

class DeviceSeries {
 public:
  /// `partition`: only memory in this partition counts; "" the whole device.
  DeviceSeries(const model::Device& device, std::string partition);

  /// Whether a sample of this device (same uuid, or address where there is none).
  [[nodiscard]] bool is_of(const model::Device& device) const;
  /// `ours`: whether a process of the driver's list belongs to the job. Samples come in the order
  /// of time; one from before the job's start only gives the energy its beginning.
  void add(const model::Device& device, const std::vector<model::DeviceProcess>& processes,
           std::int64_t unix_milliseconds, bool started,
           const std::function<bool(const model::DeviceProcess&)>& ours);

  [[nodiscard]] model::DeviceUse use() const;
  [[nodiscard]] bool listed() const { return listed_; }   // the job was in the driver's list
  [[nodiscard]] int samples() const { return samples_; }  // since the job's start

 private:
  void add_energy(const model::Device& device, std::int64_t unix_milliseconds);
  void add_power(const model::Device& device, std::int64_t unix_milliseconds);
  [[nodiscard]] model::Reading<double> energy() const;

  int index_;
  std::string name_, uuid_, pci_address_, partition_;
  bool listed_ = false;
  int samples_ = 0, loads_ = 0;
  double load_sum_ = 0, load_peak_ = 0;
  std::optional<std::uint64_t> memory_peak_bytes_;
  std::optional<std::uint64_t> first_millijoules_, last_millijoules_;
  std::int64_t counter_time_ = 0;
  bool counter_jumped_ = false;  // back, or ahead by more than any device can use
  model::Absence no_counter_ = model::Absence::kNotAsked;
  std::optional<double> power_joules_;  // where the device has no counter
  std::optional<std::uint64_t> last_milliwatts_;
  std::int64_t last_time_ = 0;
};

}  // namespace berth::run
