// The verb table in other forms: man page, shell completion, docs/cli.md, JSON. All are made from
// the rows that also parse the command line, so they cannot contradict it.
#pragma once

#include <string>
#include <string_view>

namespace berth::cli {

struct Verb;

/// berth(1) in roff.
[[nodiscard]] std::string man_page();
/// One verb's page: berth-run(1).
[[nodiscard]] std::string man_page(const Verb& verb);
/// docs/cli.md.
[[nodiscard]] std::string markdown_page();
/// The verb table as {"schema":1,"verbs":[…],"common_options":[…],"exit_codes":[…]} in one line,
/// with texts in English.
[[nodiscard]] std::string verbs_json();
/// The output of `berth --version --json`.
[[nodiscard]] std::string version_json();
/// A completion script (completion.cpp); shell is "bash", "zsh" or "fish".
[[nodiscard]] std::string completion(std::string_view shell);

}  // namespace berth::cli
