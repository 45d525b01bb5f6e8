// Whether this machine is shutting down.
#pragma once

#include <chrono>

namespace berth::system {

/// Asks systemd. Also returns false if systemd does not answer in this time, or does not run here.
[[nodiscard]] bool is_machine_stopping(std::chrono::seconds at_most = std::chrono::seconds(5));

}  // namespace berth::system
