// This process's name, as shown by ps and matched by pkill.
#pragma once

#include <string>

namespace berth::run {

/// Changes the name in /proc/PID/comm (the first 15 bytes) and /proc/PID/cmdline. Overwrites main's
/// argv.
void set_process_name(const std::string& name);

}  // namespace berth::run
