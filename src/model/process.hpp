// DeviceProcess: one process on one device, from the driver and /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/reading.hpp"

namespace berth::model {

/// How a process uses the device; several may be set.
struct UseKind {
  bool compute = false;
  bool graphics = false;
  bool mps = false;
};

struct DeviceProcess {
  int device = -1;             // Device::index
  std::string partition_uuid;  // "" : the whole device
  std::optional<std::int64_t>
      pid;  // pid in this PID namespace; nullopt: the process is in another namespace, or has ended
  std::optional<std::int64_t> host_pid;  // as the driver reports it (in the host's namespace)
  UseKind kind;
  Reading<std::uint64_t> memory_bytes;
  Reading<double>
      sm_percent;  // share of the compute units in about the last second, from the driver
  Reading<double> encoder_percent, decoder_percent;

  // From /proc, as far as the caller may read it.
  std::optional<std::uint32_t> uid;
  std::string user;   // "" unknown
  std::string state;  // "R", "S", "D", "Z", …; "" unknown
  std::optional<std::uint64_t>
      start_ticks;  // field 22 of stat; together with the pid it identifies a process
  std::optional<std::int64_t>
      parent;  // pid of the nearest ancestor in the list; nullopt: none, or not known
  Reading<double> cpu_percent;  // mean since the process started; 100 is one core
  Reading<std::uint64_t> rss_bytes;
  Reading<double> age_seconds;
  std::string command;    // arguments joined by spaces, printable; "" unknown
  std::string container;  // "docker 3f2a…", "podman …"; "" none
  std::string unit;       // systemd unit or session scope; "" none
  std::string pod;        // Kubernetes pod uid; "" none
  std::optional<std::uint64_t>
      job;  // the job that has a lease on the device, according to Snapshot::leases
  // The guard's counters. They are set only for processes of guarded jobs of the caller.
  std::optional<std::uint64_t> guard_memory_bytes;   // allocations, without contexts and modules
  std::optional<std::uint64_t> guard_spilled_bytes;  // nullopt also if the job has no --spill
  std::optional<double> guard_device_seconds;        // nullopt also if the job has no share
  // Share of the device's time since the previous sample; only in live views.
  std::optional<double> guard_percent;
};

/// A visible process that has a device node open, but is not in the driver's list.
struct Holder {
  std::int64_t pid = 0;
  std::string user;
  std::string command;
  std::string state;
};

/// Memory in use on a device that no process accounts for.
struct Unattributed {
  int device = -1;
  std::uint64_t memory_bytes = 0;
  std::string cause;  // stable: "list_unknown", "other_namespace", "zombie", "uninterruptible",
                      // "mps_server", "not_reported", "not_readable", "not_listed",
                      // "driver_reserve", "unknown"
  std::vector<Holder> holders;
};

}  // namespace berth::model
