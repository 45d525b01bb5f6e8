// What the report says about limits: what was enforced and how, or why not.
#pragma once

#include <string>

#include "model/run.hpp"

namespace berth::output {

/// What enforced the limits: "driver", "mig", "mps", "guard"; "": nothing.
[[nodiscard]] std::string enforced_by(const model::Guarded& guarded);
/// A sentence about what the method `by` does not protect from; "" if `by` is "".
[[nodiscard]] std::string not_protected(const std::string& by);
/// One sentence about the limits; "" if none was requested.
[[nodiscard]] std::string guard_sentence(const model::Report& report);
/// "at most 30 % of the time, turns of 100 ms"; "" without rules.
[[nodiscard]] std::string turns_of(const model::TurnRules& turns);

}  // namespace berth::output
