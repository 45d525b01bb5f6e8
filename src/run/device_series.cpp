#include "run/device_series.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

#include "model/device_selector.hpp"

namespace berth::run {
namespace {

constexpr std::uint64_t kMostWatts = 10'000;  // five times the power of any current board
// longest time between two updates of the energy counter, in milliseconds
constexpr std::int64_t kLongestStep = 1000;
/// The longest time between two samples. A longer step means that the clock was set, so the elapsed
/// time is unknown.
constexpr double kLongestSeconds = 60;

/// Bytes per second of one lane in each direction, by generation of PCI Express.
constexpr std::array<double, 7> kLaneBytes{0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9};

std::optional<double> link_part(const model::DeviceReadings& readings) {
  const auto generation = readings.pcie_generation.value_or(0);
  const auto width = readings.pcie_width.value_or(0);
  if (!readings.pcie_rx_bytes_per_second || !readings.pcie_tx_bytes_per_second || generation == 0 ||
      generation >= kLaneBytes.size() || width == 0 || width > 32)
    return std::nullopt;
  const auto most =
      std::max(*readings.pcie_rx_bytes_per_second, *readings.pcie_tx_bytes_per_second);
  return static_cast<double>(most) / (kLaneBytes.at(generation) * static_cast<double>(width));
}

bool has_any(const std::vector<std::string>& reasons, std::initializer_list<const char*> wanted) {
  return std::any_of(reasons.begin(), reasons.end(), [&](const std::string& one) {
    return std::find(wanted.begin(), wanted.end(), one) != wanted.end();
  });
}

}  // namespace

DeviceSeries::DeviceSeries(const model::Device& device, std::string partition)
    : index_(device.index),
      name_(device.name),
      uuid_(device.uuid),
      pci_address_(device.pci_address),
      partition_(std::move(partition)) {
  words_ = model::unit_words(device, partition_);
  for (const model::Partition& part : device.partitions)
    if (part.uuid == partition_) partition_index_ = part.index;
}

bool DeviceSeries::is_of(const model::Device& device) const {
  if (!uuid_.empty() && !device.uuid.empty()) return uuid_ == device.uuid;
  return !pci_address_.empty() && pci_address_ == device.pci_address;
}

void DeviceSeries::read_before(std::uint64_t millijoules, std::int64_t unix_milliseconds) {
  early_millijoules_ = millijoules;
  early_time_ = unix_milliseconds;
}

/// The counter's value when the job began. A slow driver may give its first sample only after that.
/// Then the value is interpolated linearly between an earlier reading and the first sample.
std::uint64_t DeviceSeries::counter_at_start(std::uint64_t millijoules,
                                             std::int64_t unix_milliseconds) const {
  const bool is_late = start_ && unix_milliseconds > *start_;
  if (!is_late || !early_millijoules_ || *early_millijoules_ > millijoules ||
      early_time_ > *start_ ||
      unix_milliseconds - early_time_ > static_cast<std::int64_t>(kLongestSeconds) * 1000)
    return millijoules;
  const auto grown = static_cast<double>(millijoules - *early_millijoules_);
  const auto part = static_cast<double>(*start_ - early_time_) /
                    static_cast<double>(unix_milliseconds - early_time_);
  return *early_millijoules_ + static_cast<std::uint64_t>(grown * part);
}

// The driver updates the counter in steps of 10 ms to 100 ms. The counter restarts at zero when the
// driver is reloaded or the device is reset. Energy used before that is lost, and the remaining
// value is not the job's energy.
void DeviceSeries::add_counter(std::uint64_t millijoules, std::int64_t unix_milliseconds) {
  if (!first_millijoules_) first_millijoules_ = counter_at_start(millijoules, unix_milliseconds);
  if (last_millijoules_) {
    const std::int64_t passed = std::max<std::int64_t>(0, unix_milliseconds - counter_time_);
    const auto most = kMostWatts * static_cast<std::uint64_t>(passed + kLongestStep);
    counter_jumped_ = counter_jumped_ || millijoules < *last_millijoules_ ||
                      millijoules - *last_millijoules_ > most;
  }
  last_millijoules_ = millijoules;
  counter_time_ = unix_milliseconds;
}

// Adds up the energy of a device without a counter. On most such devices, the driver's power is the
// mean of the last second, so samples every half second miss nothing.
void DeviceSeries::add_power(std::uint64_t milliwatts, std::int64_t unix_milliseconds) {
  // If the first sample comes after the job's start, it also covers the time since the start.
  if (!last_milliwatts_ && start_ && unix_milliseconds > *start_) {
    last_milliwatts_ = milliwatts;
    last_time_ = *start_;
  }
  const double seconds = static_cast<double>(unix_milliseconds - last_time_) / 1000.0;
  if (last_milliwatts_ && seconds > 0 && seconds < kLongestSeconds) {
    const double mean =
        (static_cast<double>(*last_milliwatts_) + static_cast<double>(milliwatts)) / 2;
    power_millijoules_ = power_millijoules_.value_or(0) + mean * seconds;
  }
  last_milliwatts_ = milliwatts;
  last_time_ = unix_milliseconds;
}

void DeviceSeries::add_energy(const inventory::DeviceSample& sample) {
  sampled_ = true;
  last_sample_ = std::max(last_sample_, sample.unix_milliseconds);
  const auto& counter = sample.device.readings.energy_millijoules;
  const auto& power = sample.device.readings.power_milliwatts;
  if (counter) add_counter(*counter, sample.unix_milliseconds);
  if (power) add_power(*power, sample.unix_milliseconds);
  if (counter || power)
    ++energies_;
  else
    no_energy_ = counter.why;
}

void DeviceSeries::add(const inventory::DeviceSample& sample, const OurPid& our_pid) {
  add_energy(sample);
  if (!start_) return;
  const std::int64_t age = sample.unix_milliseconds - *start_;
  // After the first sample, continue even if the clock is set back.
  if (age < 0 && samples_ == 0) return;
  ++samples_;
  const auto& load = sample.device.readings.utilization_percent;
  if (!load) {
    no_load_ = load.why;
  } else if (age >= kSettled.count() || loads_ > 0) {
    ++loads_;
    load_sum_ += *load;
    load_peak_ = std::max(load_peak_, *load);
  }
  add_strain(sample);
  if (const auto unknown = sample.device.processes_unknown; unknown && !memory_peak_bytes_)
    memory_peak_bytes_ = *unknown;
  std::optional<std::uint64_t> memory;
  users_now_.clear();
  for (const model::DeviceProcess& process : sample.processes) {
    const auto pid = our_pid(process);
    if (!pid) continue;
    listed_ = true;
    if (!partition_.empty() && process.partition_uuid != partition_) continue;
    users_now_.push_back({*pid, process.memory_bytes.value_or(0)});
    if (process.memory_bytes)
      memory = memory.value_or(0) + *process.memory_bytes;
    else if (!memory_peak_bytes_)
      memory_peak_bytes_ = process.memory_bytes.why;
  }
  if (memory) memory_.add(static_cast<double>(age) / 1000, *memory);
  memory_now_ = memory;
  if (memory) memory_peak_bytes_ = std::max(memory_peak_bytes_.value_or(0), *memory);
}

void DeviceSeries::add_strain(const inventory::DeviceSample& sample) {
  const model::DeviceReadings& readings = sample.device.readings;
  if (const auto& load = readings.memory_utilization_percent) {
    ++memory_loads_;
    memory_load_sum_ += *load / 100;
  }
  if (const auto part = sample.has_all ? link_part(readings) : std::nullopt) {
    ++links_;
    link_sum_ += *part;
  }
  if (!sample.has_throttle) return;
  ++throttles_;
  const auto& reasons = sample.device.throttle_reasons;
  if (has_any(reasons, {"hw_thermal", "sw_thermal"})) ++heats_;
  if (has_any(reasons, {"hw_power_brake", "sw_power_cap"})) ++powers_;
}

DeviceStrain DeviceSeries::strain() const {
  DeviceStrain strain;
  if (memory_loads_ > 0) strain.memory_busy = memory_load_sum_ / memory_loads_;
  if (links_ > 0) strain.link_used = link_sum_ / links_;
  if (throttles_ > 0) {
    strain.slowed_by_heat = static_cast<double>(heats_) / throttles_;
    strain.slowed_by_power = static_cast<double>(powers_) / throttles_;
  }
  return strain;
}

model::Reading<std::uint64_t> DeviceSeries::energy() const {
  if (counter_jumped_) return model::Absence::kFailed;
  if (first_millijoules_ && *last_millijoules_ > *first_millijoules_)
    return *last_millijoules_ - *first_millijoules_;
  if (power_millijoules_) return static_cast<std::uint64_t>(std::llround(*power_millijoules_));
  if (energies_ == 0) return no_energy_;
  // A counter that does not change for several samples is broken.
  return energies_ > 3 ? model::Absence::kFailed : model::Absence::kTooShort;
}

model::DeviceUse DeviceSeries::use(model::Absence without_sample) const {
  model::DeviceUse use;
  use.device = index_;
  use.name = name_;
  use.words = words_;
  use.partition = partition_index_;
  use.uuid = partition_.empty() ? uuid_ : partition_;
  use.memory_peak_bytes = memory_peak_bytes_;
  if (samples_ == 0) use.memory_peak_bytes = sampled_ ? model::Absence::kTooShort : without_sample;
  if (loads_ > 0) {
    use.utilization_mean_percent = load_sum_ / loads_;
    use.utilization_peak_percent = load_peak_;
  } else {
    const auto why = sampled_ ? no_load_ : without_sample;
    use.utilization_mean_percent = use.utilization_peak_percent = why;
  }
  use.energy_millijoules = sampled_ ? energy() : without_sample;
  return use;
}

}  // namespace berth::run
