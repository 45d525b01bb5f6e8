// Samples AMD and Intel devices repeatedly while a job runs. It reads a few small files per device
// and calls no library that could hang, so it needs no child process.
#pragma once

#include <cstdint>
#include <vector>

#include "inventory/device_sample.hpp"
#include "inventory/observe.hpp"

namespace berth::inventory {

class SysfsSampler {
 public:
  /// Selects the AMD and Intel devices from `devices`.
  SysfsSampler(const Sources& sources, const std::vector<model::Device>& devices);

  [[nodiscard]] bool empty() const { return devices_.empty(); }
  /// Takes one sample per device: utilization, power or energy, and the processes of `pids` that
  /// have the device's nodes open. The caller must be allowed to read these processes. A device
  /// that is asleep is not accessed.
  [[nodiscard]] std::vector<DeviceSample> take(const std::vector<std::int64_t>& pids) const;

 private:
  Roots roots_;
  std::vector<model::Device> devices_;
};

}  // namespace berth::inventory
