// One sample of one device, and how often a sampler reads each part of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/device.hpp"
#include "model/process.hpp"

namespace berth::inventory {

/// After how many ticks each of the slower values is read, and what else is reported.
struct SamplePace {
  std::uint32_t processes_every = 1;
  std::uint32_t all_every = 0;       // all readings, health and partitions; 0: never read
  std::uint32_t throttle_every = 0;  // the reasons for low clocks; 0: never read
  bool xids = false;                 // whether to wait for Xids
  /// Whether all readings include PCIe throughput, for which the driver waits 20 ms twice.
  bool pcie_throughput = false;
};

struct DeviceSample {
  model::Device device;
  std::vector<model::DeviceProcess>
      processes;                       // processes, with only those fields that the driver fills
  std::int64_t unix_milliseconds = 0;  // when the sample was read
  /// why `processes` is unknown; kNotAsked on a tick without process list
  std::optional<model::Absence> no_process_list = {};
  bool has_throttle = false;              // Device::throttle_reasons were read
  bool has_all = false;                   // all readings, health and partitions were read
  std::uint32_t driver_microseconds = 0;  // time that the driver calls took
};

}  // namespace berth::inventory
