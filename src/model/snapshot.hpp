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

/// The CPUs and the memory that this process may use.
struct CpuBudget {
  std::string affinity;    // the CPUs that sched_getaffinity() returns, in the kernel's list format
  int cores_total = 0;     // number of online cores of the machine; 0 if unknown
  int cores_affinity = 0;  // number of cores that affinity and cpuset leave; 0 if unknown
  std::optional<double> quota_cores;  // CPU quota of the cgroup, in cores; nullopt if there is none
  // How many threads to use: the smaller of cores_affinity and quota_cores, rounded down, at least
  // 1.
  int cores_usable = 1;
  std::uint64_t memory_total_bytes = 0;  // memory of the whole machine
  // the smallest memory limit of the cgroups; nullopt if it is not below the machine's memory
  std::optional<std::uint64_t> memory_limit_bytes;
  std::optional<std::uint64_t>
      memory_available_bytes;  // memory that this process could still use, within the limit
};

struct Host {
  std::string hostname, kernel, cpu_model;
  CpuBudget cpu;
  int numa_nodes = 1;
  std::string container;  // "docker", "podman", "kubernetes", "lxc", "wsl"; "" if none was detected
  bool wsl = false;
  bool simulated = false;  // true inside `berth sim`
};

/// The NVIDIA driver. Other vendors have no single driver version that is worth showing.
struct Driver {
  std::string version;  // such as "580.95.05"; "" if unknown
  // the highest CUDA version that it supports, such as "13.0"; "" if unknown
  std::string cuda_version;
  /// "ok", "none" (no driver here), "starting", "no answer", "error"
  std::string state = "none";
  std::string error_id;  // an identifier "E03xx" if the state is "error" or "no answer"
  std::string message;   // what is wrong with the driver, translated
  std::string hint;      // the command that fixes the problem
};

struct Snapshot {
  std::int64_t unix_milliseconds = 0;
  Host host;
  Driver driver;
  std::vector<Device> devices;           // sorted by Device::index
  std::vector<DeviceProcess> processes;  // sorted by device, then by memory (largest first)
  std::vector<Unattributed> unattributed;
  // nullopt if there is no broker, or if it was not asked
  std::optional<std::vector<Holding>> leases;
  std::vector<std::string> notes;  // sentences for people, translated ("OpenCL was not asked")

  /// Whether the process needs a lease for its device but has none. A process that only draws needs
  /// none.
  [[nodiscard]] bool lacks_lease(const DeviceProcess& one) const {
    return leases && one.kind.compute && !one.job;
  }
};

}  // namespace berth::model
