// The texts of --explain that are not in the table of rules: what a rule reads, what fixes the
// problem, what would refute it. Several rules share a text; findings have the values and commands
// of a case.
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
