// `berth slurm prolog`, `epilog` and `health`, which slurmd runs as root. They read and check only
// three variables that slurmd sets, and run scontrol with a clean environment. Each ends within
// half a minute.
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/scontrol.hpp"
#include "cli/slurm_epilog.hpp"
#include "cli/slurm_task.hpp"
#include "engines/slurm_node.hpp"
#include "inventory/observe.hpp"
#include "output/json_writer.hpp"

namespace berth::cli {
namespace {

using engines::NodeAction;

constexpr std::chrono::seconds kDriver{10};

/// What slurmd tells in variables: the node's name, the configuration file, and the job's GPUs.
struct Around {
  std::string node, config, gpus;
};

Around read_environment(const Arguments& given) {
  std::error_code ignored;
  const auto folder = given.value("--conf");
  return {given.value("--node").value_or(env("SLURMD_NODENAME").value_or("")),
          folder ? std::filesystem::absolute(*folder + "/slurm.conf", ignored).string()
                 : env("SLURM_CONF").value_or(""),
          env("SLURM_JOB_GPUS").value_or("")};
}

/// Removes all variables except the path of Slurm's configuration, so that programs started from
/// here inherit nothing else.
void forget_environment(const Around& around) {
  const auto simulation =
      env_nonempty("BERTH_SIM_DIR");  // keep it, because the driver of a simulated machine reads it
  ::clearenv();                       // NOLINT(concurrency-mt-unsafe): no thread runs yet
  ::setenv("PATH", "/usr/bin:/usr/sbin:/bin:/sbin:/usr/local/bin:/opt/slurm/bin", 1);
  if (simulation) ::setenv("BERTH_SIM_DIR", simulation->c_str(), 1);
  if (around.config.starts_with('/')) ::setenv("SLURM_CONF", around.config.c_str(), 1);
}

std::string config_folder(const Around& around) {
  return around.config.empty() ? engines::slurm_folder()
                               : around.config.substr(0, around.config.rfind('/'));
}

struct Checked {
  std::string unfit;  // why some GPUs are unfit for jobs; "" if all are fit
  NodeAction done = NodeAction::kNone;
  std::optional<engines::JobEnd> end = {};  // how the job ended; only for an epilog
};

model::Snapshot look_for_slurm(const inventory::Sources& sources, bool processes) {
  inventory::Options options;
  options.processes = processes;
  options.process_details = processes;
  options.holders = false;
  options.opencl = inventory::OpenCl::kNever;
  options.initialisation_deadline = kDriver;
  return inventory::observe(sources, options);
}

/// Reports the result to Slurm. If `unfit` gives a reason, drains the node. If `may_resume`, all
/// GPUs were checked, so a node that Berth drained may be resumed. `left` describes what is still
/// on the GPUs; it is called if that is why the node was drained.
Result<NodeAction> tell(const Around& around, const std::string& unfit, bool may_resume,
                        const std::function<std::string()>& left) {
  if (unfit.empty() && !may_resume) return NodeAction::kNone;
  const auto state = slurm_node_state(around.node);
  if (!state) return state.error();
  if (unfit.empty() && engines::is_left_reason(state->reason) && !left().empty())
    return NodeAction::kNone;
  const NodeAction action = engines::action_for(unfit, *state);
  const std::string name = "NodeName=" + around.node;
  std::optional<std::string> done = "";
  if (action == NodeAction::kDrain)
    done = said_by({"scontrol", "update", name, "State=DRAIN", "Reason=" + unfit});
  if (action == NodeAction::kResume) done = said_by({"scontrol", "update", name, "State=RESUME"});
  if (!done) return no_scontrol(around.node);
  return action;
}

std::string_view word_of(NodeAction action) {
  if (action == NodeAction::kDrain) return "drained";
  return action == NodeAction::kResume ? "resumed" : "none";
}

void say(const Context& context, const Around& around, const Checked& checked) {
  if (context.json) {
    output::JsonWriter json;
    json.open('{');
    json.field("schema", 1);
    json.field("node", around.node);
    json.field("fit", checked.unfit.empty());
    json.text_field("reason", checked.unfit);
    json.field("action", word_of(checked.done));
    json.field("orphans_ended", checked.end ? std::optional(checked.end->ended) : std::nullopt);
    json.text_field("left", checked.end ? checked.end->left : "");
    json.close('}');
    context.out(json.finish());
    return;
  }
  if (!checked.unfit.empty()) context.out(checked.unfit + "\n");
  if (checked.end && checked.end->ended > 0)
    context.out(fmt::format("{}: orphans ended: {}\n", around.node, checked.end->ended));
  if (checked.done != NodeAction::kNone)
    context.out(fmt::format("{}: {}\n", around.node, word_of(checked.done)));
}

/// Whether other jobs may also use this job's GPUs. If so, a process on these GPUs may belong to
/// another job.
bool may_be_shared(const Around& around, std::uint64_t job) {
  const auto config = engines::read_slurm_config(config_folder(around));
  const bool shards = !config || !config->gres ||
                      std::any_of(config->gres->begin(), config->gres->end(),
                                  [](const auto& line) { return line.name == "shard"; });
  const auto jobs = shards ? slurm_jobs_on(around.node) : Result<std::string>("");
  return !jobs || (!jobs->empty() && *jobs != std::to_string(job));
}

/// Kills the processes that the job left on its GPUs, and describes what is still there.
engines::JobEnd finish(const Around& around, const EndedJob& job, const model::Snapshot& snapshot,
                       const inventory::Sources& sources) {
  engines::JobEnd end;
  end.gpus = job.gpus;
  end.ended = end_orphans(job, snapshot);
  const bool is_clean = end.ended == 0 && engines::left_on(snapshot, job.gpus).empty();
  if (!is_clean && !may_be_shared(around, job.id))
    end.left = wait_for_rest(job, [&] { return look_for_slurm(sources, true); });
  return end;
}

}  // namespace

Result<int> slurm_node(const Context& context, const std::string& word) {
  // Use English, because everyone can read Slurm's reason with scontrol.
  set_language(Language::kEnglish);
  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  const inventory::Sources sources = inventory::Sources::from_environment();
  const Around around = read_environment(context.arguments);
  if (!is_node_name(around.node))
    return Error{
        ErrorCode::kInvalidArgument, "E1002",
        text("the name of this node is unknown: SLURMD_NODENAME, which slurmd sets, is missing"),
        "berth slurm health --node n1"};
  std::vector<int> numbers;
  std::optional<EndedJob> ended;
  if (word != "health") {
    // Without GPUs, there is nothing to check, so do not wait for the driver.
    if (around.gpus.empty()) return 0;
    const auto given = engines::job_gpus(around.gpus);
    if (!given)
      return Error{ErrorCode::kInvalidArgument, "E1002",
                   text("SLURM_JOB_GPUS is not a list of numbers: {}", printable(around.gpus)),
                   "scontrol show job"};
    numbers = *given;
    if (word == "epilog") ended = ended_job(numbers);
  }
  const model::Snapshot snapshot = look_for_slurm(sources, ended.has_value());
  forget_environment(around);
  if (word == "health") {
    if (const auto config = engines::read_slurm_config(config_folder(around)))
      numbers = engines::configured_gpus(*config, around.node);
    if (numbers.empty()) numbers = engines::gpus_here(snapshot);
  }
  Checked checked{engines::unfit_reason(snapshot, numbers), NodeAction::kNone};
  if (ended) {
    checked.end = finish(around, *ended, snapshot, sources);
    checked.end->unfit = checked.unfit;
    if (checked.unfit.empty() && !checked.end->left.empty())
      checked.unfit = engines::left_reason(checked.end->left, ended->id);
    comment_job(*ended, *checked.end);
  }
  const auto told = tell(around, checked.unfit, word == "health",
                         [&] { return engines::left_on(look_for_slurm(sources, true), numbers); });
  if (told) checked.done = *told;
  // A prolog that found unfit GPUs must exit with 1, so that Slurm does not run the job here, even
  // if the reason could not be reported to Slurm.
  if (!told && !(word == "prolog" && !checked.unfit.empty())) return told.error();
  say(context, around, checked);
  return word == "prolog" && !checked.unfit.empty() ? 1 : 0;
}

}  // namespace berth::cli
