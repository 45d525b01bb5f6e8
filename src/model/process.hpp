// DeviceProcess: one process on one device, from the driver and /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/reading.hpp"

namespace berth::model {

/// How a process uses the device. Several kinds may be set.
struct UseKind {
  bool compute = false;
  bool graphics = false;
  bool mps = false;
};

struct DeviceProcess {
  int device = -1;             // the device's number (Device::index)
  std::string partition_uuid;  // "" means the whole device
  // pid in this PID namespace; nullopt if the process is in another namespace or has ended
  std::optional<std::int64_t> pid;
  // the pid that the driver reports, in the host's PID namespace
  std::optional<std::int64_t> host_pid;
  UseKind kind;
  Reading<std::uint64_t> memory_bytes;
  Reading<double>
      sm_percent;  // use of the compute units in about the last second, as reported by the driver
  Reading<double> encoder_percent, decoder_percent;

  // From /proc. Absent where the caller may not read /proc.
  std::optional<std::uint32_t> uid;
  std::string user;   // "" if unknown
  std::string state;  // process state "R", "S", "D", "Z", …; "" if unknown
  std::optional<std::uint64_t>
      start_ticks;  // start time: field 22 of stat; the pid and this time identify a process
  // pid of the nearest ancestor that is also in the list; nullopt if there is none or it is not
  // known
  std::optional<std::int64_t> parent;
  Reading<double> cpu_percent;  // mean since the process started; 100 means one whole core
  Reading<std::uint64_t> rss_bytes;
  Reading<double> age_seconds;
  std::string command;    // the arguments joined by spaces, printable; "" if unknown
  std::string container;  // "docker 3f2a…", "podman …"; "" if it runs in no container
  std::string unit;       // name of its systemd unit or session scope; "" if it has none
  std::string pod;        // uid of its Kubernetes pod; "" if it has none
  std::optional<std::uint64_t>
      job;  // the job with a lease on the device to which the process belongs
  // Counters of the guard. Set only for processes of jobs that the guard limits and that belong to
  // the caller.
  std::optional<std::uint64_t> guard_memory_bytes;   // allocations, without contexts and modules
  std::optional<std::uint64_t> guard_spilled_bytes;  // absent without --spill
  std::optional<double> guard_device_seconds;        // absent if the job has no share
  // Use of the device's time since the previous sample. Only in live views.
  std::optional<double> guard_percent;
};

/// A process that has a device node open, but is not in the driver's list of processes.
struct Holder {
  std::int64_t pid = 0;
  std::string user;
  std::string command;
  std::string state;
};

/// Used memory of a device that belongs to no known process.
struct Unattributed {
  int device = -1;
  std::uint64_t memory_bytes = 0;
  std::string cause;  // stable: "list_unknown", "other_namespace", "zombie", "uninterruptible",
                      // "mps_server", "not_reported", "not_readable", "not_listed",
                      // "driver_reserve", "unknown"
  std::vector<Holder> holders;
};

}  // namespace berth::model
