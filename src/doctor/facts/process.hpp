// The target's process: identity, limits and variables.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "doctor/facts/fact.hpp"

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

/// Free disk space where programs write: on the file system of the nearest existing folder.
struct DiskSpace {
  std::string path;                         // "/home/ada"
  std::string what;                         // the variable that names it: "HOME", "TMPDIR"
  std::uint64_t free_bytes = 0;             // available to this user
  std::optional<std::uint64_t> free_files;  // nullopt: the file system does not count them
};

struct ProcessFacts {
  Fact<Identity> identity;
  Fact<Environment> environment;
  Fact<std::string> python;                             // the interpreter that the user named
  Fact<std::vector<int>> cpus;                          // CPU affinity
  Fact<double> quota_cores;                             // absent: none
  Fact<std::uint64_t> memlock_limit_bytes;              // absent: unlimited, as in the following
  Fact<std::uint64_t> stack_limit_bytes;                //
  Fact<std::uint64_t> address_space_limit_bytes;        // ulimit -v
  Fact<std::uint64_t> open_files_limit;                 //
  Fact<std::uint64_t> processes_limit;                  // RLIMIT_NPROC
  Fact<std::uint64_t> cgroup_processes_limit;           // pids.max
  Fact<std::uint64_t> shm_total_bytes, shm_used_bytes;  // of /dev/shm

  Fact<bool> has_account;                   // the user has a name here
  Fact<std::vector<DiskSpace>> disk_space;  // for writable file systems

  /// The variable's value; absent if it is not set.
  [[nodiscard]] Fact<std::string> variable(std::string_view name) const;
};

}  // namespace berth::doctor
