// Runs the command of `berth sim` in the same terminal and process group, and passes on its signals
// and exit code.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::sim {

/// The environment of this process, with some variables set.
[[nodiscard]] std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& settings);
/// Starts the command; `mask`: the signals that are blocked in the child. Fails with kNotFound
/// (E0614), kPermissionDenied (E0615), kUnavailable (E0613).
[[nodiscard]] Result<pid_t> start_child(const std::vector<std::string>& command,
                                        const std::vector<std::string>& environment,
                                        const sigset_t& mask);

}  // namespace berth::sim
