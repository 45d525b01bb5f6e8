// Ledger: what of a machine has been given away, as the broker tells it to place(). Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace berth::model {

/// A device or partition, or memory on it, that a job has.
struct Holding {
  std::uint64_t job = 0;
  std::string user;                // for people; "" not known
  std::string unit;                // policy::unit_id of the device or partition
  std::uint64_t memory_bytes = 0;  // 0: the job has it alone
};

struct JobProcess {
  std::int64_t pid = 0;  // in our PID namespace
  std::uint64_t job = 0;
};

struct Ledger {
  bool kept = false;  // somebody keeps it: else it is empty, and nothing is promised to anyone
  std::vector<Holding> holdings;
  std::vector<int> cpus;              // given to jobs, ascending
  std::vector<JobProcess> processes;  // by pid, ascending: no strangers where their job has a unit
};

}  // namespace berth::model
