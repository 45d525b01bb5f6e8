// One sample of one device, and how often a sampler reads each part of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/device.hpp"
#include "model/process.hpp"

namespace berth::inventory {

/// How often the slower values are read, in ticks, and which other values are reported.
struct SamplePace {
  std::uint32_t processes_every = 1;
  /// All readings, health and partitions: every so many ticks; 0: never.
  std::uint32_t all_every = 0;
  std::uint32_t throttle_every = 0;  // the reasons for low clocks: every so many ticks; 0: never
  bool xids = false;                 // whether to receive Xids
  /// Whether `all_every` includes PCIe throughput. The driver takes 40 ms to measure it.
  bool pcie_throughput = false;
};

struct DeviceSample {
  model::Device device;
  std::vector<model::DeviceProcess>
      processes;                       // processes, with only those fields that the driver fills
  std::int64_t unix_milliseconds = 0;  // when the sample was read
  /// why `processes` is unknown; kNotAsked if this tick did not read the process list
  std::optional<model::Absence> no_process_list = {};
  bool has_throttle = false;              // Device::throttle_reasons were read
  bool has_all = false;                   // all readings, health and partitions were read
  std::uint32_t driver_microseconds = 0;  // time that the driver calls took
};

}  // namespace berth::inventory
