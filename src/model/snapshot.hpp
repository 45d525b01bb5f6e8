// Snapshot: all that one look at the machine found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/device.hpp"
#include "model/ledger.hpp"
#include "model/process.hpp"

namespace berth::model {

/// What this process may use of the host's processors and memory.
struct CpuBudget {
  std::string affinity;               // kernel list format, what sched_getaffinity says
  int cores_total = 0;                // online in the machine; 0 not known
  int cores_affinity = 0;             // after affinity and cpuset; 0 not known
  std::optional<double> quota_cores;  // cgroup CPU quota, nullopt: none
  int cores_usable = 1;  // min of the two, rounded down, at least 1: the thread count to use
  std::uint64_t memory_total_bytes = 0;  // of the machine
  std::optional<std::uint64_t>
      memory_limit_bytes;  // the tightest cgroup limit below the machine's memory
  std::optional<std::uint64_t> memory_available_bytes;  // now, within the limit
};

struct Host {
  std::string hostname, kernel, cpu_model;
  CpuBudget cpu;
  int numa_nodes = 1;
  std::string container;  // "docker", "podman", "kubernetes", "lxc", "wsl"; "" none seen
  bool wsl = false;
  bool simulated = false;  // inside `berth sim`
};

/// The NVIDIA driver as a whole (others have no library-wide version worth showing).
struct Driver {
  std::string version;       // "580.95.05"; "" unknown
  std::string cuda_version;  // highest CUDA it serves, "13.0"; "" unknown
  /// "ok", "none" (no driver here), "starting", "no answer", "error"
  std::string state = "none";
  std::string error_id;  // "E03xx" where state is "error" or "no answer"
  std::string message;   // for people, translated
  std::string hint;      // the command that mends it
};

struct Snapshot {
  std::int64_t unix_milliseconds = 0;
  Host host;
  Driver driver;
  std::vector<Device> devices;           // by Device::index
  std::vector<DeviceProcess> processes;  // by device, then memory (largest first)
  std::vector<Unattributed> unattributed;
  std::optional<std::vector<Holding>> leases;  // nullopt: nobody keeps any, or was asked
  std::vector<std::string> notes;  // sentences for people, translated ("OpenCL was not asked")

  /// Nothing is asked of who only draws.
  [[nodiscard]] bool lacks_lease(const DeviceProcess& one) const {
    return leases && one.kind.compute && !one.job;
  }
};

}  // namespace berth::model
