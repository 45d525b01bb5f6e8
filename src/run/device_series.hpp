// Sums up the samples of one device while a job runs. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "inventory/device_sample.hpp"
#include "model/device.hpp"
#include "model/process.hpp"
#include "model/run.hpp"
#include "run/memory_growth.hpp"

namespace berth::run {

/// A process of the job that has memory on a device.
struct MemoryUser {
  std::int64_t pid;
  std::uint64_t bytes;  // 0: the driver does not report it
};

/// How hard a device worked. Fractions are between 0 and 1.
struct DeviceStrain {
  std::optional<double> memory_busy;  // how busy its memory controller was
  // used part of the bandwidth of its bus to the host
  std::optional<double> link_used;
  // the fraction of the samples in which heat or the power limit slowed the device
  double slowed_by_heat = 0, slowed_by_power = 0;
};

class DeviceSeries {
 public:
  /// A driver's utilization and power are averages over some time (NVIDIA: at least 1/6 second).
  /// The first values after a start describe the time before the job.
  static constexpr std::chrono::milliseconds kSettled{200};

  /// `partition`: counts only memory in this partition; "": the whole device.
  DeviceSeries(const model::Device& device, std::string partition);

  /// When the job began. Earlier samples only set the start of the energy counter.
  void start(std::int64_t unix_milliseconds) { start_ = unix_milliseconds; }
  /// Stores an earlier value of the energy counter, for a job that began before the first sample.
  void read_before(std::uint64_t millijoules, std::int64_t unix_milliseconds);
  /// Whether this is a sample of the device: same uuid, or same address if it has no uuid.
  [[nodiscard]] bool is_of(const model::Device& device) const;
  /// The pid of a process in the driver's list if it belongs to the job, else nullopt.
  using OurPid = std::function<std::optional<std::int64_t>(const model::DeviceProcess&)>;
  /// Samples must come in order of time.
  void add(const inventory::DeviceSample& sample, const OurPid& our_pid);
  /// Adds a last sample that was taken after the job's end. Only its energy counts.
  void finish(const inventory::DeviceSample& sample) { add_energy(sample); }

  /// How much the device was used. `without_sample`: the reason to report if there was no sample.
  [[nodiscard]] model::DeviceUse use(model::Absence without_sample) const;
  /// The memory of the job's own processes, since the job's start.
  [[nodiscard]] const MemorySeries& memory() const { return memory_; }
  [[nodiscard]] DeviceStrain strain() const;
  /// The memory of the job's processes in the newest sample; nullopt: the sample does not contain
  /// it.
  [[nodiscard]] std::optional<std::uint64_t> memory_now() const { return memory_now_; }
  /// The job's processes in the newest sample.
  [[nodiscard]] const std::vector<MemoryUser>& users_now() const { return users_now_; }
  [[nodiscard]] int index() const { return index_; }
  // whether the job was in the driver's list of processes
  [[nodiscard]] bool listed() const { return listed_; }
  [[nodiscard]] int samples() const { return samples_; }  // number of samples since the job's start
  // time of the newest sample, in unix milliseconds
  [[nodiscard]] std::int64_t last_sample() const { return last_sample_; }

 private:
  void add_energy(const inventory::DeviceSample& sample);
  void add_strain(const inventory::DeviceSample& sample);
  void add_counter(std::uint64_t millijoules, std::int64_t unix_milliseconds);
  [[nodiscard]] std::uint64_t counter_at_start(std::uint64_t millijoules,
                                               std::int64_t unix_milliseconds) const;
  void add_power(std::uint64_t milliwatts, std::int64_t unix_milliseconds);
  [[nodiscard]] model::Reading<std::uint64_t> energy() const;

  int index_;
  std::string name_, words_, uuid_, pci_address_, partition_;
  std::optional<std::uint32_t> partition_index_;
  std::optional<std::int64_t> start_;
  MemorySeries memory_;
  int memory_loads_ = 0, links_ = 0, throttles_ = 0, heats_ = 0, powers_ = 0;
  double memory_load_sum_ = 0, link_sum_ = 0;
  bool sampled_ = false, listed_ = false;
  int samples_ = 0, loads_ = 0, energies_ = 0;
  double load_sum_ = 0, load_peak_ = 0;
  model::Reading<std::uint64_t> memory_peak_bytes_ = model::Absence::kNotSeen;
  std::optional<std::uint64_t> memory_now_;
  std::vector<MemoryUser> users_now_;
  std::optional<std::uint64_t> first_millijoules_, last_millijoules_;
  std::optional<std::uint64_t> early_millijoules_;  // set by read_before()
  std::int64_t early_time_ = 0;
  std::int64_t counter_time_ = 0, last_sample_ = 0;
  // the energy counter decreased, or rose by more than any device can use
  bool counter_jumped_ = false;
  // energy computed from the power, if the device has no energy counter
  std::optional<double> power_millijoules_;
  std::optional<std::uint64_t> last_milliwatts_;
  std::int64_t last_time_ = 0;
  model::Absence no_load_ = model::Absence::kTooShort, no_energy_ = model::Absence::kTooShort;
};

}  // namespace berth::run
