// The supervisor: the workload of a job that has ranks or may be tried again. It starts the command
// once for each rank, passes signals and output on, ends the other ranks when one has failed, and
// starts the next try. It is a child of the keeper like every workload, so whatever ends it, the
// keeper ends all ranks.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "run/launch.hpp"

namespace berth::run {

/// What one rank has of its own.
struct RankSpec {
  std::map<std::string, std::string> variables;  // beside those of the job
  std::vector<int> cpus;                         // processors to stay on; empty: those of the job
  std::vector<int> devices;                      // Device::index
  int threads = 1;
};

struct Supervision {
  bool has_ranks = false;       // else one process with the streams and variables of the job
  std::vector<RankSpec> ranks;  // at least one
  std::vector<int> shown;       // ranks whose output is passed on; empty: all
  std::string log_folder;       // a file for each rank there; "" none
  int most_tries = 1;
  std::chrono::milliseconds backoff_least{1'000}, backoff_most{60'000};
  std::chrono::milliseconds hang_timeout{600'000};  // what has hung so long is ended, if wished
  bool ends_hangs = false;
  bool quiet = false;  // says nothing of its own on standard error
  Descriptor record;   // a file of no name: model::Tries, for the front (run/tries_record.hpp)
};

/// The rest of the life of the workload's process, with every signal blocked. A command that cannot
/// be executed is reported to `trouble`, as by become_workload().
[[noreturn]] void supervise(const Launch& launch, const Inherited& inherited, int trouble);

}  // namespace berth::run
