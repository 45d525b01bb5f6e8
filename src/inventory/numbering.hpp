// Numbers and sorts devices. Pure.
#pragma once

#include <vector>

#include "model/snapshot.hpp"

namespace berth::inventory {

/// Sorts the devices and sets Device::index. The order: GPUs, TPUs, other accelerators, OpenCL
/// devices, the CPU; within a kind by vendor, then by PCI address. Changes DeviceProcess::device
/// from the old position to the new one.
void number_devices(std::vector<model::Device>& devices,
                    std::vector<model::DeviceProcess>& processes);

/// Sorts by device, then by memory (largest first, unknown last), then by pid.
void sort_processes(std::vector<model::DeviceProcess>& processes);

}  // namespace berth::inventory
