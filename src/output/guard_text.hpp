// What the report says about limits: what was enforced and how, or why not.
#pragma once

#include <string>

#include "model/run.hpp"

namespace berth::output {

/// The method that enforced the limits: "driver", "mig", "mps" or "guard"; "" if none did.
[[nodiscard]] std::string enforced_by(const model::Guarded& guarded);
/// A sentence that tells from what the method `by` does not protect; "" if `by` is "".
[[nodiscard]] std::string not_protected(const std::string& by);
/// One sentence about how the limits were enforced; "" if none was requested.
[[nodiscard]] std::string guard_sentence(const model::Report& report);
/// The rules as text: "at most 30 % of the time, turns of 100 ms"; "" if there are none.
[[nodiscard]] std::string turns_of(const model::TurnRules& turns);

}  // namespace berth::output
