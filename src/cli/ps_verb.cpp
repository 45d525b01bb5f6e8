#include "cli/hosts.hpp"
#include "cli/look.hpp"
#include "cli/verbs.hpp"
#include "output/json.hpp"
#include "output/screens.hpp"

namespace berth::cli {

Result<int> run_ps(const Context& context) {
  if (is_for_hosts(context.arguments)) return on_hosts(context, "ps");
  // OpenCL reports no processes. So read OpenCL devices only if --device is given, because it may
  // name one.
  auto seen = look(context, Processes::kAll, context.arguments.has("--device"));
  if (!seen) return std::move(seen).error();
  add_leases(*seen);
  const auto shown = output::processes_in(view_of(context.arguments), *std::move(seen));
  if (!shown) return shown.error();
  if (context.json)
    context.out(output::ps_json(*shown));
  else
    context.out(output::ps_text(*shown, context.out_terminal, context.arguments.has("--wide")));
  return 0;
}

}  // namespace berth::cli
