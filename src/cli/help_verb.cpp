// `berth help`: the overview, the page of a verb, and the verb table for man, shells, docs and
// programs.
#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/manual.hpp"
#include "cli/verbs.hpp"
#include "client/jobs.hpp"
#include "client/lease.hpp"
#include "inventory/observe.hpp"
#include "model/device_use.hpp"

namespace berth::cli {

namespace {

/// Prints values of this machine, one per line. Shell completion calls this each time the user
/// presses Tab.
std::string words_of(std::string_view kind) {
  std::string out;
  if (kind == "devices") {
    inventory::Options options;
    options.processes = false;
    options.opencl = inventory::OpenCl::kNever;
    const auto seen = inventory::observe(inventory::Sources::from_environment(), options);
    for (const model::Device& device : seen.devices)
      if (model::is_gpu(device)) {
        out += std::to_string(device.index) + "\n";
        for (const model::Partition& part : device.partitions) out += printable(part.uuid) + "\n";
      }
    return out;
  }
  auto client = client::broker_here(client::IfNone::kGlance);
  if (!client) return out;
  const auto answer = client->call("GET", "/v1/jobs");
  const auto jobs =
      answer ? client::jobs_in(*answer) : Result<std::vector<model::Job>>(answer.error());
  if (!jobs) return out;
  for (const model::Job& job : *jobs) {
    out += model::job_number(job) + "\n";
    if (!job.name.empty() && job.name.find(' ') == std::string::npos)
      out += printable(job.name) + "\n";
  }
  return out;
}

}  // namespace

Result<int> run_help(const Context& context) {
  const Arguments& asked = context.arguments;
  if (const auto kind = asked.value("--words")) {
    context.out(words_of(*kind));
  } else if (asked.has("--man")) {
    const Verb* verb = find_verb(asked.positional.empty() ? "" : asked.positional.front());
    if (verb == nullptr) return unknown_verb(asked.positional.front());
    context.out(man_page(*verb));
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
                   text("unexpected argument '{}'", printable(asked.positional[1])), "berth help"};
    const Verb* verb = find_verb(asked.positional.front());
    if (verb == nullptr) return unknown_verb(asked.positional.front());
    context.out(help(verb, context.out_terminal));
  }
  return 0;
}

}  // namespace berth::cli
