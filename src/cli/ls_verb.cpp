#include "cli/hosts.hpp"
#include "cli/look.hpp"
#include "cli/verbs.hpp"
#include "doctor/read/collect.hpp"
#include "doctor/rules/software.hpp"
#include "output/json.hpp"
#include "output/screens.hpp"
#include "output/software.hpp"

namespace berth::cli {
namespace {

/// Finds the installed software from files alone, without starting programs. The driver's data come
/// from the snapshot.
model::Software software_here(const model::Driver& driver) {
  doctor::Sources sources = doctor::this_machine(doctor::Depth::kStatic);
  if (!driver.version.empty()) sources.driver.driver_version = driver.version;
  if (!driver.cuda_version.empty()) sources.driver.cuda_version = driver.cuda_version;
  return doctor::software_of(doctor::collect(sources), {});
}

}  // namespace

Result<int> run_ls(const Context& context) {
  if (is_for_hosts(context.arguments)) return on_hosts(context, "ls");
  auto seen = look(context, Processes::kUsers);
  if (!seen) return std::move(seen).error();
  add_leases(*seen);
  const auto shown = output::devices_in(view_of(context.arguments), *std::move(seen));
  if (!shown) return shown.error();
  const bool topology = context.arguments.has("--topology");
  const bool details = context.arguments.has("--details");
  const auto software = details ? software_here(shown->driver) : model::Software{};
  if (context.json)
    context.out(output::ls_json(*shown, {details ? &software : nullptr, topology}));
  else if (topology)
    context.out(output::topology_text(*shown, context.out_terminal));
  else if (details)
    context.out(output::details_text(*shown, context.out_terminal) + "\n" +
                output::software_text(software, context.out_terminal));
  else
    context.out(output::ls_text(*shown, context.out_terminal, context.arguments.has("--wide")));
  return 0;
}

}  // namespace berth::cli
