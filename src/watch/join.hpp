// Adds samples to a snapshot, and removes readings that cannot be true. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "inventory/device_sample.hpp"
#include "model/snapshot.hpp"

namespace berth::watch {

/// Identifies a device as long as it is in the machine. The key is its uuid, or its PCI address if
/// it has no uuid, or "" if it has neither.
[[nodiscard]] std::string key_of(const model::Device& device);

/// Copies the sample's readings into `device`, which keeps its other readings. If the sample says
/// that the device is lost, all readings are removed.
void join(const inventory::DeviceSample& sample, model::Device& device);

/// If the last sample of a device is too old, removes its readings, because they are out of date.
void mark_silent(double age_seconds, model::Device& device);

/// Copies uuid and name to a lost device, which does not report them any more. They come from the
/// device at the same PCI address in the previous snapshot.
void keep_identity(const model::Snapshot& before, model::Snapshot& now);

/// Detects a utilization that is stuck at 0 %. Some drivers report 0 % although processes compute.
class Plausibility {
 public:
  /// Call this once per frame with a new process list. If the utilization stays 0 % although the
  /// driver's process list shows work, the utilization becomes absent.
  void check(model::Snapshot& snapshot);

 private:
  /// key_of() → consecutive frames with 0 % beside work.
  std::map<std::string, int> zero_beside_work_;
};

}  // namespace berth::watch
