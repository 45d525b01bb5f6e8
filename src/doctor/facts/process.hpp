// Who asks for the GPU: the identity, limits and variables of the target's process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "doctor/fact.hpp"

namespace berth::doctor {

using Environment = std::map<std::string, std::string, std::less<>>;

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;

  [[nodiscard]] bool in_group(gid_t group) const {
    for (const gid_t one : groups)
      if (one == group) return true;
    return group == gid;
  }
};

/// What is left where programs write: the file system of the nearest folder that is there.
struct Room {
  std::string path;                         // "/home/ada"
  std::string what;                         // the variable that leads there: "HOME", "TMPDIR"
  std::uint64_t free_bytes = 0;             // for this user
  std::optional<std::uint64_t> free_files;  // nullopt: it does not count them
};

struct ProcessFacts {
  Fact<Identity> identity;
  Fact<Environment> environment;
  Fact<std::string> python;                             // the interpreter that was asked about
  Fact<std::vector<int>> cpus;                          // it may run on
  Fact<double> quota_cores;                             // absent: none
  Fact<std::uint64_t> memlock_limit_bytes;              // absent: unlimited; so are the others
  Fact<std::uint64_t> stack_limit_bytes;                //
  Fact<std::uint64_t> address_space_limit_bytes;        // ulimit -v
  Fact<std::uint64_t> open_files_limit;                 //
  Fact<std::uint64_t> processes_limit;                  // RLIMIT_NPROC
  Fact<std::uint64_t> cgroup_processes_limit;           // pids.max
  Fact<std::uint64_t> shm_total_bytes, shm_used_bytes;  // of /dev/shm

  Fact<bool> has_account;         // the user is known here by a name
  Fact<std::vector<Room>> rooms;  // on what may be written to

  /// The variable's value; absent where it is not set.
  [[nodiscard]] Fact<std::string> variable(std::string_view name) const;
};

}  // namespace berth::doctor
