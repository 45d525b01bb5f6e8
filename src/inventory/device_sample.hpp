// One sample of one device, and how often a sampler reads its parts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/device.hpp"
#include "model/process.hpp"

namespace berth::inventory {

/// Ticks between reads of the slower values.
struct SamplePace {
  std::uint32_t processes_every = 1;
  std::uint32_t all_every = 0;       // all readings, health and partitions; 0: never
  std::uint32_t throttle_every = 0;  // why clocks are low; 0: never
};

struct DeviceSample {
  model::Device device;
  std::vector<model::DeviceProcess> processes;  // only the driver's fields are filled
  std::int64_t unix_milliseconds = 0;           // when it was read
  /// Why `processes` is unknown; kNotAsked on a tick that does not list them.
  std::optional<model::Absence> no_process_list = {};
  bool has_throttle = false;              // Device::throttle_reasons were read
  bool has_all = false;                   // all readings, health and partitions were read
  std::uint32_t driver_microseconds = 0;  // time spent in the driver
};

}  // namespace berth::inventory
