// Reads our own process, and environments as text.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctor/facts/process.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

/// Our own process; does not access silenced paths of `tree`.
[[nodiscard]] ProcessFacts own_process(const Tree& tree);
/// The smallest remaining process limit (pids.max minus pids.current) of the cgroups of `process`
/// ("/proc/7"), in cgroup v1 or v2, as mounted for `viewer` ("/proc/self"). Absent if no cgroup
/// limits it.
void read_processes_limit(const std::string& process, const std::string& viewer,
                          ProcessFacts& facts);
/// The size of the shared memory in `folder`: "/dev/shm", or as another process sees it.
void read_shm(const std::string& folder, ProcessFacts& facts);
/// The folders to which a program writes according to these variables, with their variables.
[[nodiscard]] std::vector<std::pair<std::string, const char*>> written_folders(
    const Environment& environment);
/// Free disk space where a program of this user with these variables writes, and where Docker keeps
/// images.
[[nodiscard]] Fact<std::vector<DiskSpace>> disk_space_of(const Tree& tree,
                                                         const Environment& environment,
                                                         uid_t user);
/// Our own environment.
[[nodiscard]] Environment own_environment();
/// Whether /etc/passwd contains the user; unreadable if another service may know the user.
[[nodiscard]] Fact<bool> account_in(const std::string& passwd, const std::string& services,
                                    uid_t uid);
[[nodiscard]] Environment environment_of(const char* const* variables);
/// Parses NAME=value lines, or the format of /proc/PID/environ.
[[nodiscard]] Environment environment_from(std::string_view text);

}  // namespace berth::doctor
