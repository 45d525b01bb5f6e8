// Generates the man pages, shell completion, docs/cli.md and JSON from the verb table. The same
// table parses the command line, so these texts cannot contradict it.
#pragma once

#include <string>
#include <string_view>

namespace berth::cli {

struct Verb;

/// The man page berth(1) as roff.
[[nodiscard]] std::string man_page();
/// The man page of one verb, such as berth-run(1), as roff.
[[nodiscard]] std::string man_page(const Verb& verb);
/// The text of docs/cli.md.
[[nodiscard]] std::string markdown_page();
/// The verb table as {"schema":1,"verbs":[…],"common_options":[…],"exit_codes":[…]} in one line,
/// with texts in English.
[[nodiscard]] std::string verbs_json();
/// The output of `berth --version --json`.
[[nodiscard]] std::string version_json();
/// A completion script (completion.cpp); shell is "bash", "zsh" or "fish".
[[nodiscard]] std::string completion(std::string_view shell);

}  // namespace berth::cli
