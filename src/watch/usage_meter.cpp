#include "watch/usage_meter.hpp"

#include <algorithm>
#include <vector>

#include "model/busy.hpp"
#include "watch/guard_shares.hpp"
#include "watch/join.hpp"

namespace berth::watch {

namespace {

/// Seconds. If two frames are further apart, the time between them is not counted.
constexpr double kLongestGap = 10;

/// All processes with the same key (user, job and program) on one device.
struct Holder {
  double share = 0;    // percent
  double guarded = 0;  // the part of `share` that the guard measured
  double memory_bytes = 0;
  bool is_share_known = true, is_memory_known = true;
};

/// Corrects the time shares on a device. Some drivers report the use of the whole device for each
/// process. The guard measures each job. So other processes get at most the time that guarded jobs
/// left, and all shares together are at most the whole device.
void fit(std::map<UsageKey, Holder>& holders) {
  double guarded = 0, others = 0;
  for (const auto& [key, holder] : holders) {
    guarded += holder.guarded;
    others += holder.share - holder.guarded;
  }
  if (guarded <= 0 || guarded + others <= 100) return;
  const double of_guarded = std::min(1.0, 100 / guarded);
  const double of_others = others > 0 ? std::max(0.0, 100 - guarded) / others : 0;
  for (auto& [key, holder] : holders)
    holder.share =
        holder.guarded * of_guarded + (holder.share - holder.guarded) * std::min(1.0, of_others);
}

void keep_most(std::optional<double>& most, const std::optional<double>& other) {
  if (other) most = std::max(*other, most.value_or(*other));
}

}  // namespace

std::string program_of(const std::string& command) {
  const std::string word = command.substr(0, command.find(' '));
  const auto slash = word.rfind('/');
  return slash == std::string::npos ? word : word.substr(slash + 1);
}

void Usage::add(const Usage& other) {
  held_seconds += other.held_seconds;
  used_seconds += other.used_seconds;
  known_seconds += other.known_seconds;
  idle_seconds += other.idle_seconds;
  memory_byte_seconds += other.memory_byte_seconds;
  energy_joules += other.energy_joules;
  keep_most(peak_memory_bytes, other.peak_memory_bytes);
  keep_most(device_memory_bytes, other.device_memory_bytes);
  // 0 means that a whole device was requested, which is more than any part of one.
  if (asked_memory_bytes == 0.0 || other.asked_memory_bytes == 0.0)
    asked_memory_bytes = 0.0;
  else
    keep_most(asked_memory_bytes, other.asked_memory_bytes);
}

/// Returns the energy since the last frame. Uses the energy counter if there is one. The counter
/// restarts at zero when the driver is loaded.
std::optional<double> UsageMeter::joules_of(const model::Device& device, double seconds) {
  if (const auto& counter = device.readings.energy_millijoules) {
    const auto [last, is_new] = energy_.try_emplace(key_of(device), *counter);
    const auto before = std::exchange(last->second, *counter);
    if (is_new || *counter < before) return std::nullopt;
    return static_cast<double>(*counter - before) / 1000;
  }
  if (device.readings.power_milliwatts)
    return static_cast<double>(*device.readings.power_milliwatts) / 1000 * seconds;
  return std::nullopt;
}

/// Counts memory that belongs to no process. It is unknown whether its owner uses the device. If
/// nobody else holds the device, all of the device's energy is counted for this owner.
void UsageMeter::add_unaccounted(const Frame& frame, const model::Device& device, double seconds,
                                 const std::optional<double>& joules) {
  Usage& usage = usage_[{key_of(device), kNoProcess, 0, kNoProcess}];
  usage.held_seconds += seconds;
  usage.energy_joules += joules.value_or(0);
  for (const model::Unattributed& row : frame.snapshot.unattributed) {
    if (row.device != device.index) continue;
    const auto bytes = static_cast<double>(row.memory_bytes);
    usage.memory_byte_seconds += bytes * seconds;
    keep_most(usage.peak_memory_bytes, bytes);
  }
  if (const auto& total = device.readings.memory_total_bytes)
    keep_most(usage.device_memory_bytes, static_cast<double>(*total));
}

void UsageMeter::add(const Frame& frame, const AskedMemory& asked) {
  const double seconds = last_seconds_ ? frame.seconds - *last_seconds_ : 0;
  last_seconds_ = frame.seconds;
  const bool counts = seconds > 0 && seconds <= kLongestGap;
  std::map<int, std::map<UsageKey, Holder>> holders;
  for (const model::DeviceProcess& process : frame.snapshot.processes) {
    if (!process.kind.compute && !process.kind.mps) continue;
    UsageKey key{"", process.user, process.job.value_or(0), program_of(process.command)};
    Holder& holder = holders[process.device][std::move(key)];
    const auto share = time_share(process);
    holder.share += share.value_or(0);
    holder.guarded += process.guard_percent.value_or(0);
    holder.is_share_known = holder.is_share_known && share;
    holder.is_memory_known = holder.is_memory_known && process.memory_bytes;
    holder.memory_bytes += static_cast<double>(process.memory_bytes.value_or(0));
  }
  for (const model::Device& device : frame.snapshot.devices) {
    const auto joules = joules_of(device, seconds);
    const auto found = holders.find(device.index);
    if (counts && model::holds_unaccounted(device, frame.snapshot))
      add_unaccounted(frame, device, seconds,
                      found == holders.end() ? joules : std::optional<double>());
    if (!counts || found == holders.end()) continue;
    fit(found->second);
    double all = 0;
    for (const auto& [key, holder] : found->second) all += holder.share;
    for (const auto& [key, holder] : found->second) {
      UsageKey own = key;
      own.device = key_of(device);
      Usage& usage = usage_[own];
      usage.held_seconds += seconds;
      usage.memory_byte_seconds += holder.memory_bytes * seconds;
      if (holder.is_memory_known) keep_most(usage.peak_memory_bytes, holder.memory_bytes);
      if (const auto& total = device.readings.memory_total_bytes)
        keep_most(usage.device_memory_bytes, static_cast<double>(*total));
      if (const auto job = asked.find(key.job); job != asked.end())
        usage.asked_memory_bytes = static_cast<double>(job->second);
      const double even = 1 / static_cast<double>(found->second.size());
      usage.energy_joules += joules.value_or(0) * (all > 0 ? holder.share / all : even);
      if (!holder.is_share_known) continue;
      usage.known_seconds += seconds;
      usage.used_seconds += std::min(holder.share, 100.0) / 100 * seconds;
      if (holder.share == 0) usage.idle_seconds += seconds;
    }
  }
}

}  // namespace berth::watch
