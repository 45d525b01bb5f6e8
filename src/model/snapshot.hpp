// Snapshot: the result of one scan of the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/device.hpp"
#include "model/ledger.hpp"
#include "model/process.hpp"

namespace berth::model {

/// How much of the host's CPUs and memory this process may use.
struct CpuBudget {
  std::string affinity;    // CPU affinity from sched_getaffinity, in the kernel's list format
  int cores_total = 0;     // cores of the machine that are online; 0 unknown
  int cores_affinity = 0;  // cores after affinity and cpuset; 0 unknown
  std::optional<double> quota_cores;  // cgroup CPU quota; nullopt: none
  // How many threads to use: the smaller of cores_affinity and quota_cores, rounded down, but at
  // least 1.
  int cores_usable = 1;
  std::uint64_t memory_total_bytes = 0;  // memory of the whole machine
  std::optional<std::uint64_t>
      memory_limit_bytes;  // the smallest cgroup limit that is below the machine's memory
  std::optional<std::uint64_t>
      memory_available_bytes;  // memory that is available now, within the limit
};

struct Host {
  std::string hostname, kernel, cpu_model;
  CpuBudget cpu;
  int numa_nodes = 1;
  std::string container;  // "docker", "podman", "kubernetes", "lxc", "wsl"; "" none detected
  bool wsl = false;
  bool simulated = false;  // inside `berth sim`
};

/// The NVIDIA driver. Other vendors have no driver-wide version worth showing.
struct Driver {
  std::string version;       // "580.95.05"; "" unknown
  std::string cuda_version;  // highest CUDA version it supports, "13.0"; "" unknown
  /// "ok", "none" (no driver here), "starting", "no answer", "error"
  std::string state = "none";
  std::string error_id;  // "E03xx" if the state is "error" or "no answer"
  std::string message;   // for people, translated
  std::string hint;      // the command that fixes it
};

struct Snapshot {
  std::int64_t unix_milliseconds = 0;
  Host host;
  Driver driver;
  std::vector<Device> devices;           // by Device::index
  std::vector<DeviceProcess> processes;  // sorted by device, then by memory (largest first)
  std::vector<Unattributed> unattributed;
  std::optional<std::vector<Holding>> leases;  // nullopt: there is no broker, or it was not queried
  std::vector<std::string> notes;  // sentences for people, translated ("OpenCL was not asked")

  /// Whether the process uses a device without a lease, although it needs one. A process that only
  /// draws needs none.
  [[nodiscard]] bool lacks_lease(const DeviceProcess& one) const {
    return leases && one.kind.compute && !one.job;
  }
};

}  // namespace berth::model
