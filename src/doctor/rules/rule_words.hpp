// Texts for `berth doctor --explain` that the table of rules does not contain: what a rule
// examines, what fixes the problem, and what would show that a finding is wrong. Several rules can
// share a text. The values and commands for a certain machine are in the finding.
#pragma once

#include <string_view>

namespace berth::doctor {

/// Each text is a msgid; "" if there is none.
struct RuleWords {
  const char* looks_at = "";
  const char* mended_by = "";
  const char* refuted_by = "";
};
[[nodiscard]] RuleWords words_of_rule(std::string_view id);

}  // namespace berth::doctor
