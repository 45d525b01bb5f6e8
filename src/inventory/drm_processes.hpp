// Joins AMD and Intel GPUs with the processes that hold their DRM nodes. Pure.
#pragma once

#include <vector>

#include "model/device.hpp"
#include "model/process.hpp"
#include "system/drm_fdinfo.hpp"

namespace berth::inventory {

/// Adds a row for every client of an AMD or Intel device in `devices` (DeviceProcess::device is the
/// position there, `pid` as in the /proc that was read). `everybody`: all processes could be looked
/// at, so that where a driver does not tell the memory in use, the sum of its clients may stand for
/// it. Where the search was cut short, nobody knows.
void add_drm_processes(const system::DrmSearch& search, bool everybody,
                       std::vector<model::Device>& devices,
                       std::vector<model::DeviceProcess>& processes);

}  // namespace berth::inventory
