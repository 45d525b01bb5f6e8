// `berth help`: the overview, one verb's page, and the same table for man, shells, docs and
// programs.
#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/manual.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

Result<int> run_help(const Context& context) {
  const Arguments& asked = context.arguments;
  if (asked.has("--man")) {
    context.out(man_page());
  } else if (asked.has("--markdown")) {
    context.out(markdown_page());
  } else if (const auto shell = asked.value("--completion")) {
    context.out(completion(*shell));
  } else if (context.json) {
    context.out(verbs_json());
  } else if (asked.positional.empty()) {
    context.out(help(nullptr, context.out_terminal));
  } else {
    if (asked.positional.size() > 1)
      return Error{ErrorCode::kInvalidArgument, "E0004",
                   text("unexpected word '{}'", printable(asked.positional[1])), "berth help"};
    const Verb* verb = find_verb(asked.positional.front());
    if (verb == nullptr) return unknown_verb(asked.positional.front());
    context.out(help(verb, context.out_terminal));
  }
  return 0;
}

}  // namespace berth::cli
