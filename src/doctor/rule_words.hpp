// What --explain says of a rule beside its table: what it looks at, what mends it, what refutes it.
// By kind of rule; a finding has the values and the commands.
#pragma once

#include <string_view>

namespace berth::doctor {

/// Each a msgid; "" not said.
struct RuleWords {
  const char* looks_at = "";
  const char* mended_by = "";
  const char* refuted_by = "";
};
[[nodiscard]] RuleWords words_of_rule(std::string_view id);

}  // namespace berth::doctor
