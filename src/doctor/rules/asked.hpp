// Rules over what was asked for besides (AskedFacts). They stand in the table with the others, and
// are neither checked nor unchecked where nobody asked.
#pragma once

#include <span>
#include <string_view>

#include "doctor/asked.hpp"
#include "doctor/rule.hpp"

namespace berth::doctor {

std::span<const Rule> asked_rules();
[[nodiscard]] bool is_asked_rule(std::string_view id);
/// Runs the rule; false: nobody asked.
bool look_asked(std::string_view id, Examination& look, const AskedFacts& asked);

}  // namespace berth::doctor
