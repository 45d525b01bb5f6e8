// What one device was found to do while a job runs.
#pragma once

#include <cstdint>
#include <vector>

#include "model/device.hpp"
#include "model/process.hpp"

namespace berth::inventory {

struct DeviceSample {
  model::Device device;
  std::vector<model::DeviceProcess> processes;  // only the driver's part is filled
  std::int64_t unix_milliseconds = 0;           // when it was read
};

}  // namespace berth::inventory
