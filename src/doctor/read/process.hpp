// Reads who asks: our own process, and environments as text.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctor/facts/process.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

/// Ours; what is silent in `tree` is not looked at.
[[nodiscard]] ProcessFacts own_process(const Tree& tree);
/// pids.max less pids.current of the group around `process` ("/proc/7") that has the least room,
/// from cgroup v1 or v2, where `viewer` ("/proc/self") has them; absent where no group limits them.
void read_processes_limit(const std::string& process, const std::string& viewer,
                          ProcessFacts& facts);
/// How much shared memory there is in `folder`, "/dev/shm" or as another process sees it.
void read_shm(const std::string& folder, ProcessFacts& facts);
/// Folders that these variables name for what a program writes, each with its variable.
[[nodiscard]] std::vector<std::pair<std::string, const char*>> written_folders(
    const Environment& environment);
/// Room where a program of this user with these variables writes, and where Docker keeps images.
[[nodiscard]] Fact<std::vector<Room>> rooms_of(const Tree& tree, const Environment& environment,
                                               uid_t user);
/// Our own variables.
[[nodiscard]] Environment own_environment();
/// Whether /etc/passwd has the user; unreadable where another service may know it.
[[nodiscard]] Fact<bool> account_in(const std::string& passwd, const std::string& services,
                                    uid_t uid);
[[nodiscard]] Environment environment_of(const char* const* variables);
/// NAME=value, a line each; or as /proc/PID/environ has them.
[[nodiscard]] Environment environment_from(std::string_view text);

}  // namespace berth::doctor
