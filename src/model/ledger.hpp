// Ledger: what is assigned to jobs on a machine. The broker passes it to place(). Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::model {

/// What a job has of a device or partition: all of it, or a part of its memory.
struct Holding {
  std::uint64_t job = 0;
  std::string user;                // name of the user; "" if unknown
  std::string unit;                // id of the device or partition (policy::unit_id)
  std::uint64_t memory_bytes = 0;  // 0 means exclusive use
  int share_permille = 0;  // share of the device's time in thousandths; 0 if none was requested
  // the job's number for people, such as "7_3"; "" if it is the same as `job`
  std::string number = {};
  // if not 0, the job has ended, but this process of it cannot be killed
  std::int64_t stuck_pid = 0;
  // Counters of the guard. Set only for running jobs that the guard limits and that belong to the
  // caller.
  std::optional<std::uint64_t> guard_memory_bytes = {};   // includes contexts and modules
  std::optional<std::uint64_t> guard_spilled_bytes = {};  // absent without --spill
  std::optional<double> guard_device_seconds = {};        // absent if the job has no share

  [[nodiscard]] std::string job_words() const {
    return number.empty() ? std::to_string(job) : number;
  }
};

/// `user` of a holding whose job is 0: the broker of another user has leased the device. With any
/// other `user`, such a holding means that the unit is drained.
inline constexpr std::string_view kAnotherBroker = "another broker";

struct JobProcess {
  std::int64_t pid = 0;  // pid in this PID namespace
  std::uint64_t job = 0;
};

/// A cluster scheduler to which Berth can lend devices and partitions.
struct Scheduler {
  // `key` is its name in the journal, `title` its name for people, `verb` the VERB in `berth VERB
  // reclaim`.
  std::string_view key, title, verb;
};
inline constexpr std::array kSchedulers{Scheduler{"slurm", "Slurm", "slurm"},
                                        Scheduler{"kubernetes", "Kubernetes", "k8s"}};
/// The scheduler with this key; nullptr if there is none.
[[nodiscard]] constexpr const Scheduler* scheduler_of(std::string_view key) {
  for (const Scheduler& one : kSchedulers)
    if (one.key == key) return &one;
  return nullptr;
}

/// A device or partition whose job has ended, but has processes that are blocked in the kernel and
/// cannot be killed. No job gets it until these processes are gone.
struct AsideUnit {
  // the device or partition, and the user and number of the ended job
  std::string unit, user, number;
  std::uint64_t job = 0;
  // pid and start time in clock ticks
  std::vector<std::pair<std::int64_t, std::uint64_t>> processes;
};

/// Devices and partitions that no job of this broker can get. Each list is in the order of the
/// machine.
struct ClosedUnits {
  struct Lent {
    // the device or partition, and the key of the scheduler to which it is lent
    std::string unit, to;
  };
  std::vector<std::string> elsewhere;  // leased by another broker of this machine
  std::vector<std::string> drained;
  std::vector<Lent> lent;
  std::vector<AsideUnit> aside;
};

/// A GPU on which the system broker makes MIG partitions for jobs ([mig] in berth.toml).
struct MigRoom {
  std::string device;  // uuid
  // memory of the largest partition that can be made if the GPU is empty
  std::uint64_t most_bytes = 0;
  // memory of the largest partition that can be made now; 0 if none can be made
  std::uint64_t now_bytes = 0;
  std::string busy;  // why no partition can be made now, for people; "" if there is no reason
};

struct Ledger {
  // true if a broker keeps this ledger; false if there is no broker, so that it is empty
  bool kept = false;
  std::vector<Holding> holdings;
  std::vector<int> cpus;  // CPUs that are assigned to jobs, ascending
  // The processes of all jobs, sorted by pid. A process in this list is not a foreign process on
  // the devices of its job.
  std::vector<JobProcess> processes;
  std::vector<MigRoom> rooms;
  std::vector<std::string> made;  // uuids of the MIG partitions that Berth made for jobs
};

}  // namespace berth::model
