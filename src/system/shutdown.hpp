// Whether this machine is shutting down.
#pragma once

#include <chrono>

namespace berth::system {

/// Asks systemd whether the machine is stopping. Also returns false if systemd does not run, or
/// does not answer within `at_most`.
[[nodiscard]] bool is_machine_stopping(std::chrono::seconds at_most = std::chrono::seconds(5));

}  // namespace berth::system
