// The name under which a process is found: by ps, and by those who signal processes by name.
#pragma once

#include <string>

namespace berth::run {

/// Renames this process, as /proc/PID/comm (its first 15 bytes) and /proc/PID/cmdline show it. The
/// words of main's argv are gone afterwards.
void call_oneself(const std::string& name);

}  // namespace berth::run
