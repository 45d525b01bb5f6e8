// Ledger: what has been assigned on a machine, as the broker passes it to place(). Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::model {

/// A device or partition that is assigned to a job, or memory on it.
struct Holding {
  std::uint64_t job = 0;
  std::string user;                // user name for people; "" unknown
  std::string unit;                // policy::unit_id of the device or partition
  std::uint64_t memory_bytes = 0;  // 0: exclusive
  int share_permille = 0;          // share of the device's time; 0: none was requested
  std::string number = {};         // the job's number for people: "7_3"; "" same as `job`
  std::int64_t stuck_pid = 0;      // not 0: the job has ended, but this process cannot be killed
  // The guard's counters. They are set only for running, guarded jobs of the caller.
  std::optional<std::uint64_t> guard_memory_bytes = {};   // includes contexts and modules
  std::optional<std::uint64_t> guard_spilled_bytes = {};  // also nullopt for a job without --spill
  std::optional<double> guard_device_seconds = {};        // also nullopt for a job without a share

  [[nodiscard]] std::string job_words() const {
    return number.empty() ? std::to_string(job) : number;
  }
};

/// `user` of a holding with job 0: another user's broker has leased the device. With another
/// `user`, a holding with job 0 is a drained unit.
inline constexpr std::string_view kAnotherBroker = "another broker";

struct JobProcess {
  std::int64_t pid = 0;  // pid in this PID namespace
  std::uint64_t job = 0;
};

/// A scheduler that units can be lent to.
struct Scheduler {
  // The name in the journal, the name for people, and the VERB in `berth VERB reclaim`.
  std::string_view key, title, verb;
};
inline constexpr std::array kSchedulers{Scheduler{"slurm", "Slurm", "slurm"},
                                        Scheduler{"kubernetes", "Kubernetes", "k8s"}};
/// nullptr: there is none with this key.
[[nodiscard]] constexpr const Scheduler* scheduler_of(std::string_view key) {
  for (const Scheduler& one : kSchedulers)
    if (one.key == key) return &one;
  return nullptr;
}

/// A unit whose job has ended, but has processes that could not be killed because they are blocked
/// in the kernel. No job gets the unit until these processes are gone.
struct AsideUnit {
  std::string unit, user, number;  // of the job
  std::uint64_t job = 0;
  std::vector<std::pair<std::int64_t, std::uint64_t>> processes;  // pid and start time in ticks
};

/// Units that no job of this broker can get, each list in the order of the machine.
struct ClosedUnits {
  struct Lent {
    std::string unit, to;  // the unit, and the key of the scheduler that has it
  };
  std::vector<std::string> elsewhere;  // leased by another broker of this machine
  std::vector<std::string> drained;
  std::vector<Lent> lent;
  std::vector<AsideUnit> aside;
};

/// A GPU on which root's broker makes MIG partitions for jobs ([mig] in berth.toml).
struct MigRoom {
  std::string device;            // uuid
  std::uint64_t most_bytes = 0;  // memory of the largest partition that an empty GPU allows
  std::uint64_t now_bytes = 0;   // memory of the largest partition that can be made now; 0: none
  std::string busy;              // why none can be made now, for people; "": no reason
};

struct Ledger {
  bool kept =
      false;  // true: a broker keeps this ledger; false: there is none, so the ledger is empty
  std::vector<Holding> holdings;
  std::vector<int> cpus;  // CPUs that are assigned to jobs, ascending
  // The processes of all jobs, sorted by pid. On the units of its job, a process is not foreign.
  std::vector<JobProcess> processes;
  std::vector<MigRoom> rooms;
  std::vector<std::string> made;  // uuids of partitions that Berth made, each for one job
};

}  // namespace berth::model
