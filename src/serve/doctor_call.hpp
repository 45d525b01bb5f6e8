// `GET /v1/doctor`: runs `berth doctor --json` with the daemon's variables and returns its
// document.
#pragma once

#include <atomic>
#include <string>

#include "serve/server.hpp"

namespace berth::serve {

/// Waits at most a minute for the child. Ends it earlier once `is_over` is true. Never throws.
/// `language`: "en", "zh", or "" for the language of the daemon.
[[nodiscard]] Reply doctor_reply(const std::string& language, const std::atomic<bool>& is_over);

}  // namespace berth::serve
