// `berth slurm`: shows the Slurm configuration that this machine needs, and whether it is
// installed.
#include <sys/stat.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/look.hpp"
#include "cli/slurm_task.hpp"
#include "cli/verbs.hpp"
#include "doctor/read/slurm.hpp"
#include "doctor/tree/tree.hpp"
#include "engines/slurm_check.hpp"
#include "engines/slurm_config.hpp"
#include "engines/slurm_gres.hpp"
#include "inventory/observe.hpp"
#include "output/json_writer.hpp"

namespace berth::cli {
namespace {

using engines::Difference;
using engines::GresNode;
using engines::GresOptions;
using engines::SlurmConfig;

constexpr int kMostShards = 1024;

Error wrong(std::string message, std::string hint) {
  return {ErrorCode::kInvalidArgument, "E1002", std::move(message), std::move(hint)};
}

Result<GresOptions> gres_options(const Arguments& given) {
  GresOptions options;
  options.node = given.value("--node").value_or("");
  if (options.node.find_first_of(" \t\n=#,[]") != std::string::npos)
    return wrong(text("'{}' is not a node name", printable(options.node)),
                 "berth slurm gres --node n1");
  if (const auto shards = given.value("--shards")) {
    const auto number = to_number(*shards);
    if (!number || *number < 1 || *number > kMostShards)
      return wrong(
          text("--shards: '{}' is not a number from 1 to {}", printable(*shards), kMostShards),
          "berth slurm gres --shards 4");
    options.shards = static_cast<int>(*number);
  }
  return options;
}

Result<GresNode> node_here(const Context& context) {
  auto seen = look(context, Processes::kUsers, false);
  if (!seen) return std::move(seen).error();
  const Roots roots = inventory::Sources::from_environment().roots;
  return engines::gres_node(*seen, engines::read_cpu_topology(roots),
                            engines::read_mig_minors(roots));
}

std::string lines_of(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

std::string gres_json(const GresNode& node, const GresOptions& options) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("node", options.node.empty() ? node.name : options.node);
  json.rows("gpus", node.gpus, [&](const engines::Gres& one) {
    json.field("device", one.device);
    json.field("type", one.type);
    json.field("files", one.files);
    json.text_field("cores", one.cores);
    json.field("mig", one.is_slice);
  });
  json.text_field("gres", engines::gres_value(node, options.shards));
  json.field("gres_conf", engines::gres_lines(node, options));
  json.field("slurm_conf", engines::slurm_lines(node, options));
  json.field("cgroup_conf", std::vector<std::string>{"ConstrainDevices=yes"});
  json.field("notes", node.notes);
  json.close('}');
  return json.finish();
}

Result<int> print_gres(const Context& context) {
  const auto options = gres_options(context.arguments);
  if (!options) return options.error();
  const auto node = node_here(context);
  if (!node) return node.error();
  if (node->gpus.empty() && !context.json)
    return Error{ErrorCode::kNoDevice, "E1003",
                 node->notes.empty() ? text("there is no GPU that Slurm could give to jobs")
                                     : node->notes.front(),
                 "berth doctor"};
  if (context.json) {
    context.out(gres_json(*node, *options));
    return 0;
  }
  for (const std::string& note : node->notes) context.err(text("note: {}", note) + "\n");
  const std::string only = context.arguments.value("--only").value_or("");
  const auto part = [&](const char* name, const std::vector<std::string>& lines) {
    if (!only.empty() && only != name) return;
    if (only.empty()) context.out(fmt::format("# {}\n", name));
    context.out(lines_of(lines));
  };
  part("gres.conf", engines::gres_lines(*node, *options));
  part("slurm.conf", engines::slurm_lines(*node, *options));
  part("cgroup.conf", {"ConstrainDevices=yes"});
  return 0;
}

bool file_exists(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 || errno != ENOENT;
}

std::string check_json(const SlurmConfig& config, const std::string& name,
                       const std::vector<Difference>& found) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("folder", config.folder);
  json.field("node", name);
  json.field("fits", found.empty());
  json.rows("differences", found, [&](const Difference& one) {
    json.field("id", one.id);
    json.field("says", one.what);
    json.field("fix", one.fix);
  });
  json.close('}');
  return json.finish();
}

Result<int> check_config(const Context& context) {
  const auto config = engines::read_slurm_config(
      context.arguments.value("--conf").value_or(engines::slurm_folder()));
  if (!config) return config.error();
  auto node = node_here(context);
  if (!node) return std::move(node).error();
  const doctor::Tree tree("/");
  engines::SlurmMachine machine{*std::move(node), file_exists, doctor::slurm_plugin_folder(tree),
                                false};
  machine.has_nvml_plugin = tree.exists(machine.plugin_folder + "/gpu_nvml.so");
  // Missing Slurm files are an error only on the real machine, not on a simulated or recorded one.
  if (std::string(inventory::Sources::from_environment().roots.sys) != "/sys")
    machine.file_exists = nullptr;
  const std::string name = context.arguments.value("--node").value_or(machine.node.name);
  const auto found = engines::differences(*config, machine, name);
  if (context.json) {
    context.out(check_json(*config, name, found));
    return found.empty() ? 0 : 1;
  }
  for (const std::string& note : machine.node.notes) context.err(text("note: {}", note) + "\n");
  if (found.empty())
    context.out(text("the configuration in {} matches this machine", printable(config->folder)) +
                "\n");
  for (const Difference& one : found)
    context.out(fmt::format("{}\n  {}\n", one.what, text("fix: {}", one.fix)));
  return found.empty() ? 0 : 1;
}

}  // namespace

Result<int> run_slurm(const Context& context) {
  const auto& words = context.arguments.positional;
  if (words.size() == 1 && words[0] == "gres") return print_gres(context);
  if (words.size() == 1 && words[0] == "check") return check_config(context);
  if (words.size() == 1 && words[0] == "plugin") return slurm_plugin(context);
  if (words.size() == 1 && words[0] == "task") return slurm_task(context);
  if (words.size() == 1 && (words[0] == "prolog" || words[0] == "epilog" || words[0] == "health"))
    return slurm_node(context, words[0]);
  if (words.size() == 1 && (words[0] == "lend" || words[0] == "reclaim"))
    return slurm_lend(context, words[0]);
  constexpr const char* kWords = "gres, check, plugin, prolog, epilog, health, lend, reclaim";
  return wrong(words.empty() ? text("the Slurm command is missing; possible: {}", kWords)
                             : text("'{}' is not one of {}", printable(words[0]), kWords),
               "berth slurm gres\nberth slurm check");
}

}  // namespace berth::cli
