// Numbers and sorts devices. Pure.
#pragma once

#include <vector>

#include "model/snapshot.hpp"

namespace berth::inventory {

/// Sorts the devices (GPUs, TPUs, other accelerators, OpenCL devices, the CPU; each kind by vendor,
/// then PCI address) and sets Device::index. Updates DeviceProcess::device, which was an index in
/// `devices`.
void number_devices(std::vector<model::Device>& devices,
                    std::vector<model::DeviceProcess>& processes);

/// Sorts by device, then by memory (largest first, unknown last), then by pid.
void sort_processes(std::vector<model::DeviceProcess>& processes);

}  // namespace berth::inventory
