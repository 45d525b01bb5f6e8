#include "run/device_series.hpp"

#include <algorithm>

namespace berth::run {

namespace {

constexpr std::uint64_t kMostWatts = 10'000;  // no board of today uses a fifth of it
constexpr std::int64_t kLongestStep = 1000;   // milliseconds

}  // namespace

DeviceSeries::DeviceSeries(const model::Device& device, std::string partition)
    : index_(device.index),
      name_(device.name),
      uuid_(device.uuid),
      pci_address_(device.pci_address),
      partition_(std::move(partition)) {}

bool DeviceSeries::is_of(const model::Device& device) const {
  if (!uuid_.empty() && !device.uuid.empty()) return uuid_ == device.uuid;
  return !pci_address_.empty() && pci_address_ == device.pci_address;
}

// The driver moves the counter in steps (every 10 ms to 100 ms), and begins at zero when it is
// loaded again or the device is reset: what was used before is then lost, and what is left over is
// not the job's energy.
void DeviceSeries::add_energy(const model::Device& device, std::int64_t unix_milliseconds) {
  const auto& counter = device.readings.energy_millijoules;
  if (!counter) {
    no_counter_ = counter.why;
    return;
  }
  if (!first_millijoules_) first_millijoules_ = *counter;
  if (last_millijoules_) {
    const std::int64_t passed = std::max<std::int64_t>(0, unix_milliseconds - counter_time_);
    const auto most = kMostWatts * static_cast<std::uint64_t>(passed + kLongestStep);
    counter_jumped_ =
        counter_jumped_ || *counter < *last_millijoules_ || *counter - *last_millijoules_ > most;
  }
  last_millijoules_ = *counter;
  counter_time_ = unix_milliseconds;
}

// Where there is no counter. The driver's power is the mean of the last second on most devices, so
// that samples of every half second miss nothing.
void DeviceSeries::add_power(const model::Device& device, std::int64_t unix_milliseconds) {
  const auto& power = device.readings.power_milliwatts;
  if (!power) return;
  const double seconds = static_cast<double>(unix_milliseconds - last_time_) / 1000.0;
  if (last_milliwatts_ && seconds > 0) {
    const double mean = (static_cast<double>(*last_milliwatts_) + static_cast<double>(*power)) / 2;
    power_joules_ = power_joules_.value_or(0) + mean / 1000.0 * seconds;
  }
  last_milliwatts_ = *power;
  last_time_ = unix_milliseconds;
}

model::Reading<double> DeviceSeries::energy() const {
  if (counter_jumped_) return model::Absence::kFailed;
  if (first_millijoules_ && *last_millijoules_ > *first_millijoules_)
    return static_cast<double>(*last_millijoules_ - *first_millijoules_) / 1000.0;
  if (power_joules_) return *power_joules_;
  if (first_millijoules_ || last_milliwatts_) return model::Absence::kNeedsTwoReadings;
  return no_counter_;
}

void DeviceSeries::add(const model::Device& device,
                       const std::vector<model::DeviceProcess>& processes,
                       std::int64_t unix_milliseconds, bool started,
                       const std::function<bool(const model::DeviceProcess&)>& ours) {
  add_energy(device, unix_milliseconds);
  add_power(device, unix_milliseconds);
  if (!started) return;
  ++samples_;
  if (const auto& load = device.readings.utilization_percent) {
    ++loads_;
    load_sum_ += *load;
    load_peak_ = std::max(load_peak_, *load);
  }
  std::optional<std::uint64_t> memory;
  for (const model::DeviceProcess& process : processes) {
    if (!ours(process)) continue;
    listed_ = true;
    const bool counts = partition_.empty() || process.partition_uuid == partition_;
    if (counts && process.memory_bytes) memory = memory.value_or(0) + *process.memory_bytes;
  }
  if (memory) memory_peak_bytes_ = std::max(memory_peak_bytes_.value_or(0), *memory);
}

model::DeviceUse DeviceSeries::use() const {
  model::DeviceUse use;
  use.device = index_;
  use.name = name_;
  use.uuid = partition_.empty() ? uuid_ : partition_;
  use.memory_peak_bytes = memory_peak_bytes_;
  if (loads_ > 0) {
    use.utilization_mean_percent = load_sum_ / loads_;
    use.utilization_peak_percent = load_peak_;
  }
  use.energy_joules = energy();
  return use;
}

}  // namespace berth::run
