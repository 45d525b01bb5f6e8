// What --explain says about a rule besides its table row: what it reads, what fixes it, what
// refutes it. The texts are for kinds of rules; the values and commands of a case are in the
// findings.
#pragma once

#include <string_view>

namespace berth::doctor {

/// Each text is a msgid; "" none.
struct RuleWords {
  const char* looks_at = "";
  const char* mended_by = "";
  const char* refuted_by = "";
};
[[nodiscard]] RuleWords words_of_rule(std::string_view id);

}  // namespace berth::doctor
