#include "cli/look.hpp"
#include "cli/verbs.hpp"
#include "output/json.hpp"
#include "output/screens.hpp"

namespace berth::cli {

Result<int> run_ls(const Context& context) {
  auto seen = look(context, Processes::kUsers);
  if (!seen) return std::move(seen).error();
  add_leases(*seen);
  const auto shown = output::devices_in(view_of(context.arguments), *std::move(seen));
  if (!shown) return shown.error();
  if (context.json)
    context.out(output::ls_json(*shown));
  else if (context.arguments.has("--details"))
    context.out(output::details_text(*shown, context.out_terminal));
  else
    context.out(output::ls_text(*shown, context.out_terminal, context.arguments.has("--wide")));
  return 0;
}

}  // namespace berth::cli
