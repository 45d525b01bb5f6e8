// Ledger: what of a machine has been given away, as the broker tells it to place(). Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth::model {

/// A device or partition, or memory on it, that a job has.
struct Holding {
  std::uint64_t job = 0;
  std::string user;                // for people; "" not known
  std::string unit;                // policy::unit_id of the device or partition
  std::uint64_t memory_bytes = 0;  // 0: the job has it alone
  int share_permille = 0;          // of its time; 0: none was asked for
  std::string number = {};         // of the job, for people: "7_3"; "" as `job`

  [[nodiscard]] std::string job_words() const {
    return number.empty() ? std::to_string(job) : number;
  }
};

/// The user of a holding of job 0 that is no drained unit: somebody else's broker gave it away.
inline constexpr std::string_view kAnotherBroker = "another broker";

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
