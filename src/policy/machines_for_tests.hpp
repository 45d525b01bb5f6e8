// Hand-made machines for the tests of this folder.
#pragma once

#include <string>
#include <vector>

#include "model/snapshot.hpp"

namespace berth::policy::machines {

using model::Device;
using model::DeviceKind;
using model::Health;
using model::Snapshot;
using model::Vendor;

constexpr std::uint64_t kGiB = 1ULL << 30;

inline Device gpu(Vendor vendor, const std::string& name, std::uint64_t total_gib) {
  Device device;
  device.vendor = vendor;
  device.name = name;
  device.health = vendor == Vendor::kNvidia ? Health::kOk : Health::kNotChecked;
  device.compute_mode = vendor == Vendor::kNvidia ? "default" : "";
  device.readings.memory_total_bytes = total_gib * kGiB;
  device.readings.memory_used_bytes = 0;
  return device;
}

/// Numbers the devices in order: index, bus address 0000:(10+16 i):00.0, vendor_index and uuid.
/// Adds a CPU at the end with 8 cores per NUMA node.
inline Snapshot machine(std::vector<Device> devices, int nodes = 1) {
  Snapshot snapshot;
  const int cores = 8 * nodes;
  snapshot.host.cpu.affinity = "0-" + std::to_string(cores - 1);
  snapshot.host.cpu.cores_total = snapshot.host.cpu.cores_affinity =
      snapshot.host.cpu.cores_usable = cores;
  snapshot.host.cpu.memory_available_bytes = 100 * kGiB;
  snapshot.host.numa_nodes = nodes;
  const int count = static_cast<int>(devices.size());
  for (int i = 0; i < count; ++i) {
    Device& d = devices[static_cast<std::size_t>(i)];
    d.index = i;
    if (d.pci_address.empty())
      d.pci_address = "0000:" + std::string(1, "123456789abcdef"[i % 15]) + "0:00.0";
    if (d.uuid.empty() && d.vendor == Vendor::kNvidia)
      d.uuid = "GPU-aaaa000" + std::to_string(i) + "-1111-2222";
    const int node = i * nodes / count;
    d.numa_node = node;
    if (d.local_cpus.empty())
      d.local_cpus = std::to_string(8 * node) + "-" + std::to_string(8 * node + 7);
  }
  Device cpu;
  cpu.index = count;
  cpu.kind = DeviceKind::kCpu;
  cpu.name = "Test CPU";
  cpu.memory_unified = true;
  devices.push_back(cpu);
  snapshot.devices = std::move(devices);
  return snapshot;
}

inline Snapshot bare() {
  return machine({});
}
inline Snapshot nvidia(int count, int nodes = 1) {
  return machine(
      std::vector<Device>(static_cast<std::size_t>(count), gpu(Vendor::kNvidia, "NVIDIA H100", 80)),
      nodes);
}

/// Adds a process on a device, and its memory to the device's memory in use.
inline void use(Snapshot& snapshot, int device, std::uint64_t gib, bool compute = true,
                const std::string& partition = "") {
  model::DeviceProcess process;
  process.device = device;
  process.partition_uuid = partition;
  process.pid = 4121 + device;
  process.user = "zhao";
  process.command = "python train.py";
  (compute ? process.kind.compute : process.kind.graphics) = true;
  process.memory_bytes = gib * kGiB;
  snapshot.processes.push_back(process);
  for (Device& d : snapshot.devices)
    if (d.index == device)
      d.readings.memory_used_bytes = *d.readings.memory_used_bytes + gib * kGiB;
}

inline Device with_mig(Device device, std::vector<std::uint64_t> sizes_gib,
                       const std::string& tag) {
  device.mig_enabled = true;
  for (std::size_t i = 0; i < sizes_gib.size(); ++i) {
    model::Partition part;
    part.index = static_cast<std::uint32_t>(i);
    part.name = "MIG " + std::to_string(sizes_gib[i]) + "gb";
    part.uuid = "MIG-" + tag + std::to_string(i) + "-0000";
    part.gpu_instance = static_cast<std::uint32_t>(7 + i);
    part.compute_instance = 0;
    part.memory_total_bytes = sizes_gib[i] * kGiB;
    part.memory_used_bytes = 0;
    device.partitions.push_back(part);
  }
  return device;
}

}  // namespace berth::policy::machines
