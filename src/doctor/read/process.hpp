// Reads who asks: our own process, and environments as text.
#pragma once

#include <string>
#include <string_view>

#include "doctor/facts/process.hpp"

namespace berth::doctor {

[[nodiscard]] ProcessFacts own_process();
/// pids.max less pids.current of the group around /proc/`process` that has the least room, from
/// cgroup v1 or v2; absent where no group limits them.
void read_processes_limit(const std::string& process, ProcessFacts& facts);
/// Room where a program with these variables writes, and where Docker keeps images.
[[nodiscard]] std::vector<Room> rooms_of(const Environment& environment);
/// Whether /etc/passwd has the user; unreadable where another service may know it.
[[nodiscard]] Fact<bool> account_in(const std::string& passwd, const std::string& services,
                                    uid_t uid);
[[nodiscard]] Environment environment_of(const char* const* variables);
/// NAME=value, a line each; or as /proc/PID/environ has them.
[[nodiscard]] Environment environment_from(std::string_view text);

}  // namespace berth::doctor
