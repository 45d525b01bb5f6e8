// Reads facts about this process, and environments from text.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctor/facts/process.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

/// Facts about this process. Does not access the paths of `tree` that do not respond.
[[nodiscard]] ProcessFacts own_process(const Tree& tree);
/// The smallest number of further processes that cgroups allow (pids.max minus pids.current).
/// `process` is a folder such as "/proc/7". `viewer` is the process whose cgroup mounts are used
/// ("/proc/self"). Absent if no cgroup limits `process`.
void read_processes_limit(const std::string& process, const std::string& viewer,
                          ProcessFacts& facts);
/// The size of the shared memory in `folder`: "/dev/shm", or the path under which this process sees
/// the /dev/shm of another process.
void read_shm(const std::string& folder, ProcessFacts& facts);
/// The folders to which a program with these variables writes, and for each folder the variable
/// that names it.
[[nodiscard]] std::vector<std::pair<std::string, const char*>> written_folders(
    const Environment& environment);
/// Free disk space in the folders to which a program of this user writes, and in the folder where
/// Docker keeps images.
[[nodiscard]] Fact<std::vector<DiskSpace>> disk_space_of(const Tree& tree,
                                                         const Environment& environment,
                                                         uid_t user);
/// The environment of this process, with its real working directory in PWD.
[[nodiscard]] Environment own_environment();
/// Whether /etc/passwd contains the user. Unreadable if another service may know the user.
[[nodiscard]] Fact<bool> account_in(const std::string& passwd, const std::string& services,
                                    uid_t uid);
[[nodiscard]] Environment environment_of(const char* const* variables);
/// Parses lines NAME=value, or the content of /proc/PID/environ.
[[nodiscard]] Environment environment_from(std::string_view text);

}  // namespace berth::doctor
