#include "cli/look.hpp"
#include "cli/verbs.hpp"
#include "output/json.hpp"
#include "output/overview.hpp"

namespace berth::cli {

Result<int> run_overview(const Context& context) {
  auto seen = look(context, Processes::kAll);
  if (!seen) return std::move(seen).error();
  add_leases(*seen);
  const auto next =
      output::next_steps(*seen, [](std::string_view verb) { return find_verb(verb) != nullptr; });
  context.out(context.json ? output::overview_json(*seen, next)
                           : output::overview_text(*seen, next, context.out_terminal));
  return 0;
}

}  // namespace berth::cli
