// Reads who asks: our own process, and environments as text.
#pragma once

#include <string_view>

#include "doctor/facts/process.hpp"

namespace berth::doctor {

[[nodiscard]] ProcessFacts own_process();
[[nodiscard]] Environment environment_of(const char* const* variables);
/// NAME=value, a line each; or as /proc/PID/environ has them.
[[nodiscard]] Environment environment_from(std::string_view text);

}  // namespace berth::doctor
