// Ledger: what has been assigned on a machine, as the broker passes it to place(). Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth::model {

/// A device or partition, or memory on one, that is assigned to a job.
struct Holding {
  std::uint64_t job = 0;
  std::string user;                // for people; "" unknown
  std::string unit;                // policy::unit_id of the device or partition
  std::uint64_t memory_bytes = 0;  // 0: exclusive
  int share_permille = 0;          // of the device's time; 0: none requested
  std::string number = {};         // the job's number for people: "7_3"; "" same as `job`

  [[nodiscard]] std::string job_words() const {
    return number.empty() ? std::to_string(job) : number;
  }
};

/// The user of a holding with job 0 that is not a drained unit: another user's broker assigned it.
inline constexpr std::string_view kAnotherBroker = "another broker";

struct JobProcess {
  std::int64_t pid = 0;  // in our PID namespace
  std::uint64_t job = 0;
};

struct Ledger {
  bool kept = false;  // a broker keeps it; otherwise it is empty
  std::vector<Holding> holdings;
  std::vector<int> cpus;              // assigned to jobs, ascending
  std::vector<JobProcess> processes;  // by pid, ascending; not foreign on their own job's units
};

}  // namespace berth::model
