// Looks at AMD's and Intel's devices again and again while a job runs: some small files each, read
// in place, because no library is called that could hang.
#pragma once

#include <cstdint>
#include <vector>

#include "inventory/device_sample.hpp"
#include "inventory/observe.hpp"

namespace berth::inventory {

class SysfsSampler {
 public:
  /// Of `devices`, those of AMD and Intel.
  SysfsSampler(const Sources& sources, const std::vector<model::Device>& devices);

  [[nodiscard]] bool empty() const { return devices_.empty(); }
  /// One sample a device: utilization, power or energy, and of these processes, which the caller
  /// must be allowed to look into, those that hold its nodes. A device that sleeps is not touched.
  [[nodiscard]] std::vector<DeviceSample> take(const std::vector<std::int64_t>& pids) const;

 private:
  Roots roots_;
  std::vector<model::Device> devices_;
};

}  // namespace berth::inventory
