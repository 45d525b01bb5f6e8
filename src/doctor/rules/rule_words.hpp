// What --explain says about a rule besides its table row: what it reads, what fixes it, what
// refutes it. By kind of rule; values and commands are in the findings.
#pragma once

#include <string_view>

namespace berth::doctor {

/// Each a msgid; "" none.
struct RuleWords {
  const char* looks_at = "";
  const char* mended_by = "";
  const char* refuted_by = "";
};
[[nodiscard]] RuleWords words_of_rule(std::string_view id);

}  // namespace berth::doctor
