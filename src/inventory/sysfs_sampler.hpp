// Samples AMD and Intel devices repeatedly while a job runs. Reads a few small files per device in
// this process, because no library that could hang is called.
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
  /// Takes one sample per device: utilization, power or energy, and which of the processes `pids`
  /// have its nodes open. The caller must be allowed to read these processes. A sleeping device is
  /// not accessed.
  [[nodiscard]] std::vector<DeviceSample> take(const std::vector<std::int64_t>& pids) const;

 private:
  Roots roots_;
  std::vector<model::Device> devices_;
};

}  // namespace berth::inventory
