// Berth's own numbers for devices, and what they are put in order by. Pure.
#pragma once

#include <vector>

#include "model/snapshot.hpp"

namespace berth::inventory {

/// Puts the devices in Berth's order (GPUs, TPUs, other accelerators, OpenCL devices, the CPU;
/// within a kind by vendor, then PCI address), sets Device::index, and lets DeviceProcess::device,
/// so far a position in `devices`, follow.
void number_devices(std::vector<model::Device>& devices,
                    std::vector<model::DeviceProcess>& processes);

/// By device, then memory, the largest first and the unknown last, then pid.
void sort_processes(std::vector<model::DeviceProcess>& processes);

}  // namespace berth::inventory
