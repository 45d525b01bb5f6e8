// Joins samples into a snapshot, and removes readings that cannot be true. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "inventory/device_sample.hpp"
#include "model/snapshot.hpp"

namespace berth::watch {

/// Identifies a device as long as it is in the machine: its uuid, else its PCI address; "" if it
/// has neither.
[[nodiscard]] std::string key_of(const model::Device& device);

/// Copies the sample's readings into `device` and keeps all other readings. A lost device loses all
/// readings.
void join(const inventory::DeviceSample& sample, model::Device& device);

/// Removes the readings of a device whose last sample is so old that they are out of date.
void mark_silent(double age_seconds, model::Device& device);

/// A lost device does not report its uuid and name any more. Copies them from the device that was
/// at the same PCI address in the previous snapshot.
void keep_identity(const model::Snapshot& before, model::Snapshot& now);

/// Stores what is needed to detect a utilization that is stuck at 0 %.
class Plausibility {
 public:
  /// Call once per frame with a new process list. A utilization that stays 0 % while the driver's
  /// own process list shows work becomes absent.
  void check(model::Snapshot& snapshot);

 private:
  std::map<std::string, int> zero_beside_work_;  // number of consecutive such frames, by key_of()
};

}  // namespace berth::watch
