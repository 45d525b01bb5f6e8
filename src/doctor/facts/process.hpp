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

/// Free space of a folder to which programs write. If the folder does not exist, the values are
/// those of its nearest existing parent.
struct DiskSpace {
  std::string path;              // "/home/ada"
  std::string what;              // the variable that names the folder: "HOME", "TMPDIR"
  std::uint64_t free_bytes = 0;  // space available to this user
  // free inodes; nullopt if the file system has no limit on files
  std::optional<std::uint64_t> free_files;
};

/// The facts of a process that have one value. Each row has a type, a name, and a message for
/// "could not be read". The list generates members of ProcessFacts, the keys of process.json, and
/// the texts of messages.
#define BERTH_PROCESS_FACTS(FACT)                                                     \
  /* the interpreter that the user named */                                           \
  FACT(std::string, python, msgid("the Python interpreter"))                          \
  /* CPU affinity */                                                                  \
  FACT(std::vector<int>, cpus, msgid("on which cores the process may run"))           \
  /* absent: none */                                                                  \
  FACT(double, quota_cores, msgid("the quota of cores"))                              \
  /* absent: unlimited, as for the next four */                                       \
  FACT(std::uint64_t, memlock_limit_bytes, msgid("the limit of locked memory"))       \
  FACT(std::uint64_t, stack_limit_bytes, msgid("the limit of the stack"))             \
  /* ulimit -v */                                                                     \
  FACT(std::uint64_t, address_space_limit_bytes, msgid("the limit of address space")) \
  FACT(std::uint64_t, open_files_limit, msgid("the limit of open files"))             \
  /* RLIMIT_NPROC */                                                                  \
  FACT(std::uint64_t, processes_limit, msgid("the limit of processes"))               \
  /* pids.max */                                                                      \
  FACT(std::uint64_t, cgroup_processes_limit, msgid("the limit of processes"))        \
  /* of /dev/shm */                                                                   \
  FACT(std::uint64_t, shm_total_bytes, msgid("the size of /dev/shm"))                 \
  FACT(std::uint64_t, shm_used_bytes, msgid("the size of /dev/shm"))                  \
  /* the user has a name here */                                                      \
  FACT(bool, has_account, msgid("whether the user has an account"))

struct ProcessFacts {
  Fact<Identity> identity;
  Fact<Environment> environment;
#define BERTH_FACT(type, key, words) Fact<type> key;
  BERTH_PROCESS_FACTS(BERTH_FACT)
#undef BERTH_FACT
  // free space of the file systems to which programs write
  Fact<std::vector<DiskSpace>> disk_space;

  /// The variable's value; absent if it is not set.
  [[nodiscard]] Fact<std::string> variable(std::string_view name) const;
};

}  // namespace berth::doctor
