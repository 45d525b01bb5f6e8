// What the report says about limits: what was enforced and how, or why not.
#pragma once

#include <string>

#include "model/run.hpp"

namespace berth::output {

/// One sentence about the limits; "" if none was requested.
[[nodiscard]] std::string guard_sentence(const model::Report& report);
/// "at most 30 % of the time, turns of 100 ms"; "" without rules.
[[nodiscard]] std::string turns_of(const model::TurnRules& turns);

}  // namespace berth::output
