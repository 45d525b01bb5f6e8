// The verb table for other readers than people at a terminal: man page, shell completion,
// docs/cli.md, JSON. All are made from the rows that parse the command line, so that none can say
// something else.
#pragma once

#include <string>
#include <string_view>

namespace berth::cli {

/// A page for man(1), section 1, in roff.
[[nodiscard]] std::string man_page();
/// docs/cli.md.
[[nodiscard]] std::string markdown_page();
/// {"schema":1,"verbs":[…],"common_options":[…],"exit_codes":[…]}, one line; texts in English.
[[nodiscard]] std::string verbs_json();
/// What `berth --version --json` prints.
[[nodiscard]] std::string version_json();
/// A completion script (completion.cpp); shell is "bash", "zsh" or "fish".
[[nodiscard]] std::string completion(std::string_view shell);

}  // namespace berth::cli
