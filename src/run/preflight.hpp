// --preflight: the ranks meet and add numbers together, with the program's own Python, before the
// program starts. run/preflight.py is what each of them runs.
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

/// What one rank found out, from the last line of its output. A rank that printed none failed.
[[nodiscard]] model::Preflight parse_preflight(std::string_view output);

/// The result of all ranks: failed if one rank failed; else without PyTorch if one rank has no
/// PyTorch; else successful.
[[nodiscard]] model::Preflight sum_up(const std::vector<model::Preflight>& ranks);

/// A translated sentence for users.
[[nodiscard]] std::string preflight_sentence(const model::Preflight& preflight);

// time limit for importing PyTorch and for meeting
inline constexpr std::chrono::seconds kPreflightLimit{30};
inline constexpr std::chrono::seconds kPreflightMeets{15};  // for each step

}  // namespace berth::run
