// Machines for the tests in this folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engines/cpu_topology.hpp"
#include "engines/kube_devices.hpp"
#include "engines/slurm_gres.hpp"
#include "model/snapshot.hpp"

namespace berth::engines {

/// `n` equal GPUs. The first half of them is near processors 0-1 and 4-5, the second half is near
/// processors 2-3 and 6-7.
inline model::Snapshot machine_of(int n) {
  model::Snapshot seen;
  seen.host.hostname = "lab1.example.org";
  seen.host.cpu.memory_total_bytes = 64ULL << 30U;
  for (int i = 0; i < n; ++i) {
    model::Device device;
    device.index = i;
    device.vendor = model::Vendor::kNvidia;
    device.name = "NVIDIA GeForce RTX 3090";
    device.uuid = "GPU-0000000" + std::to_string(i) + "-0000-0000-0000-000000000000";
    device.pci_address = "0000:0" + std::to_string(i + 1) + ":00.0";
    device.minor_number = static_cast<std::uint32_t>(i);
    device.local_cpus = i < n / 2 ? "0-1,4-5" : "2-3,6-7";
    device.health = model::Health::kOk;
    device.readings.memory_total_bytes = std::uint64_t{24} << 30U;
    seen.devices.push_back(device);
  }
  return seen;
}

/// Two sockets with two cores each, and two threads per core. Processors 0-1 and 4-5 are on the
/// first socket.
inline std::optional<CpuTopology> two_sockets() {
  CpuTopology topology;
  topology.sockets = 2;
  topology.cores = 4;
  topology.threads = 8;
  for (int cpu = 0; cpu < 8; ++cpu) topology.core_of[cpu] = cpu % 4;
  return topology;
}

inline model::Partition slice(std::uint32_t instance, std::uint32_t compute) {
  model::Partition part;
  part.name = "MIG 1g.5gb";
  part.gpu_instance = instance;
  part.compute_instance = compute;
  return part;
}

/// Two healthy GPUs for Kubernetes.
inline std::vector<KubeUnit> two_units() {
  std::vector<KubeUnit> units(2);
  units[0].uuid = "GPU-a";
  units[1].uuid = "GPU-b";
  return units;
}

}  // namespace berth::engines
