// Matches AMD and Intel GPUs with the processes that have their DRM nodes open. Pure.
#pragma once

#include <vector>

#include "model/device.hpp"
#include "model/process.hpp"
#include "system/drm_fdinfo.hpp"

namespace berth::inventory {

/// Adds a row for every client of an AMD or Intel device in `devices`. DeviceProcess::device is the
/// device's index in `devices`; `pid` is the pid in the /proc that was read. If `everybody`, all
/// processes were readable, so the sum of the clients may replace a missing total. If the search
/// was not finished, the device's processes stay unknown.
void add_drm_processes(const system::DrmSearch& search, bool everybody,
                       std::vector<model::Device>& devices,
                       std::vector<model::DeviceProcess>& processes);

}  // namespace berth::inventory
