#include "watch/join.hpp"

#include <algorithm>

namespace berth::watch {

using model::Absence;
using model::Device;
using model::Health;

namespace {

/// A utilization of 0 % must be seen in so many frames beside busy processes. One frame proves
/// nothing, because the two values are means over different times.
constexpr int kStuckFrames = 3;
constexpr double kWork = 5;  // percent

bool is_throttle(const std::string& reason) {
  return reason.starts_with("throttle:");
}

/// Replaces the health reasons. The slow readings contain errors, and the fast ones contain
/// throttling. A sample replaces only the reasons that it has read.
void join_health(const inventory::DeviceSample& sample, Device& device) {
  if (sample.has_all || sample.device.health == Health::kLost) {
    device.health = sample.device.health;
    device.health_reasons = sample.device.health_reasons;
    device.throttle_reasons = sample.device.throttle_reasons;
    return;
  }
  if (device.health == Health::kNoAnswer) device.health = Health::kNotChecked;
  if (!sample.has_throttle) return;
  device.throttle_reasons = sample.device.throttle_reasons;
  std::erase_if(device.health_reasons, is_throttle);
  std::copy_if(sample.device.health_reasons.begin(), sample.device.health_reasons.end(),
               std::back_inserter(device.health_reasons), is_throttle);
  if (!device.health_reasons.empty())
    device.health = Health::kDegraded;
  else if (device.health == Health::kDegraded || device.health == Health::kNotChecked)
    device.health = Health::kOk;
}

}  // namespace

std::string key_of(const Device& device) {
  return device.uuid.empty() ? device.pci_address : device.uuid;
}

void join(const inventory::DeviceSample& sample, Device& device) {
  const auto take = [](const auto& from, auto& to) {
    if (from || from.why != Absence::kNotAsked) to = from;
  };
#define BERTH_ROW(type, member) take(sample.device.readings.member, device.readings.member);
  BERTH_DEVICE_READINGS(BERTH_ROW)
#undef BERTH_ROW
  if (sample.has_all) {
    device.partitions = sample.device.partitions;
    device.partitions_unknown = sample.device.partitions_unknown;
    device.slow_unix_milliseconds = sample.unix_milliseconds;
  }
  device.age_seconds.reset();
  join_health(sample, device);
}

void mark_silent(double age_seconds, Device& device) {
  device.age_seconds = age_seconds;
  device.health = Health::kNoAnswer;
  set_all_absent(device.readings, Absence::kNoAnswer);
}

void keep_identity(const model::Snapshot& before, model::Snapshot& now) {
  for (Device& device : now.devices) {
    const bool is_out = device.health == Health::kLost || device.health == Health::kNoAnswer;
    if (!is_out || device.pci_address.empty()) continue;
    const auto same =
        std::find_if(before.devices.begin(), before.devices.end(),
                     [&](const Device& one) { return one.pci_address == device.pci_address; });
    if (same == before.devices.end()) continue;
    if (device.uuid.empty()) device.uuid = same->uuid;
    if (!same->name.empty() && device.uuid == same->uuid) device.name = same->name;
  }
}

void Plausibility::check(model::Snapshot& snapshot) {
  for (Device& device : snapshot.devices) {
    auto& utilization = device.readings.utilization_percent;
    if (!utilization) continue;
    const bool works =
        std::any_of(snapshot.processes.begin(), snapshot.processes.end(), [&](const auto& process) {
          return process.device == device.index && process.sm_percent.value_or(0) >= kWork;
        });
    int& frames = zero_beside_work_[key_of(device)];
    frames = works && *utilization == 0 ? frames + 1 : 0;
    if (frames >= kStuckFrames) utilization = Absence::kFailed;
  }
}

}  // namespace berth::watch
