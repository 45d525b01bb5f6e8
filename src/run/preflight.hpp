// --preflight: the ranks meet and add numbers together, with the program's own Python, before the
// program starts. Each rank runs run/preflight.py for this.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "model/tries.hpp"

namespace berth::run {

/// The command of each rank. Empty if `command` is not Python, because the PyTorch that it uses is
/// then unknown.
[[nodiscard]] std::vector<std::string> preflight_command(const std::vector<std::string>& command);

/// What one rank found out, from the last line of its output. A rank that printed no result has
/// failed.
[[nodiscard]] model::Preflight parse_preflight(std::string_view output);

/// The result of all ranks. If one rank failed: failed. If none failed, but one rank has no
/// PyTorch: skipped without PyTorch. In all other cases: successful.
[[nodiscard]] model::Preflight sum_up(const std::vector<model::Preflight>& ranks);

/// A translated sentence for users.
[[nodiscard]] std::string preflight_sentence(const model::Preflight& preflight);

// time limit for importing PyTorch and for meeting
inline constexpr std::chrono::seconds kPreflightLimit{30};
// time limit for each step of the meeting
inline constexpr std::chrono::seconds kPreflightMeets{15};

}  // namespace berth::run
