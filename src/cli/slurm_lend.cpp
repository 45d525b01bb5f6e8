// `berth slurm lend` and `reclaim`: move the GPUs of this machine between Berth's own queue and
// Slurm. engines/lending.hpp decides each step.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "cli/job_calls.hpp"
#include "cli/look.hpp"
#include "cli/scontrol.hpp"
#include "cli/slurm_task.hpp"
#include "engines/lending.hpp"
#include "engines/slurm_config.hpp"
#include "output/json_writer.hpp"
#include "output/words.hpp"
#include "policy/candidates.hpp"

namespace berth::cli {
namespace {

using engines::Ledgers;
using engines::LendStep;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPoll{50}, kLastPoll{2000};

struct Gpu {
  std::string unit, label;
};

/// The GPUs that Slurm's configuration lists for the node. If it lists none, all NVIDIA GPUs.
std::vector<Gpu> gpus_of(const model::Snapshot& snapshot, const std::string& node) {
  std::vector<int> numbers;
  const std::string file = env("SLURM_CONF").value_or("");
  const std::string folder =
      file.empty() ? engines::slurm_folder() : file.substr(0, file.rfind('/'));
  if (const auto config = engines::read_slurm_config(folder))
    numbers = engines::configured_gpus(*config, node);
  if (numbers.empty()) numbers = engines::gpus_here(snapshot);
  std::vector<Gpu> out;
  for (const policy::Candidate& one : policy::candidates_of(snapshot, {})) {
    const auto number = one.device->minor_number;
    if (one.device->vendor != model::Vendor::kNvidia || !number ||
        std::find(numbers.begin(), numbers.end(), static_cast<int>(*number)) == numbers.end())
      continue;
    const std::string unit = policy::unit_id(*one.device, one.partition);
    if (!unit.empty()) out.push_back({unit, policy::label(one)});
  }
  return out;
}

class Lending {
 public:
  Lending(JobCalls calls, std::vector<Gpu> gpus, std::string node)
      : calls_(std::move(calls)), gpus_(std::move(gpus)), node_(std::move(node)) {}

  /// Reads the state of both queues.
  Result<Ledgers> look() {
    const auto answer = calls_.call("GET", "/v1/jobs?running", kAnswerSoon);
    if (!answer) return answer.error();
    const auto jobs = client::jobs_in(*answer);
    if (!jobs) return jobs.error();
    const model::ClosedUnits closed = client::closed_in(*answer);
    auto node = slurm_node_state(node_);
    if (!node) return std::move(node).error();
    auto slurm_jobs = slurm_jobs_on(node_);
    if (!slurm_jobs) return std::move(slurm_jobs).error();
    slurm_jobs_ = *std::move(slurm_jobs);
    Ledgers now{static_cast<int>(gpus_.size()), 0, 0, *std::move(node)};
    if (now.node.use == engines::NodeUse::kNone && !slurm_jobs_.empty())
      now.node.use = engines::NodeUse::kJobs;
    waits_for_.clear();
    for (const auto& one : closed.lent) now.lent += is_one_of_them(one.unit) ? 1 : 0;
    for (const model::Job& job : *jobs)
      if (job.state == model::JobState::kRunning && has_gpu(job)) {
        ++now.leases;
        waits_for_.push_back(text("job {} of {}", model::job_number(job), printable(job.user)));
      }
    return now;
  }

  Status take(LendStep step, const Ledgers& now) {
    const std::string name = "NodeName=" + node_;
    switch (step) {
      case LendStep::kCloseBerth:
        return mark("/v1/devices/drain");
      case LendStep::kOpenBerth:
        return mark("/v1/devices/undrain");
      case LendStep::kCloseSlurm:
        return update({name, "State=DRAIN", "Reason=" + engines::own_queue_reason(now.node)});
      case LendStep::kOpenSlurm: {
        const std::string before = engines::reason_before(now.node);
        return before.empty() ? update({name, "State=RESUME"})
                              : update({name, "State=DRAIN", "Reason=" + before});
      }
      default:
        return Done{};
    }
  }

  /// The jobs of Berth that still have one of the GPUs.
  [[nodiscard]] const std::vector<std::string>& waits_for() const { return waits_for_; }
  [[nodiscard]] const std::string& slurm_jobs() const { return slurm_jobs_; }

 private:
  [[nodiscard]] bool has_gpu(const model::Job& job) const {
    return std::any_of(job.grants.begin(), job.grants.end(),
                       [&](const model::Grant& grant) { return is_one_of_them(grant.unit); });
  }
  [[nodiscard]] bool is_one_of_them(const std::string& unit) const {
    return std::any_of(gpus_.begin(), gpus_.end(),
                       [&](const Gpu& gpu) { return gpu.unit == unit; });
  }

  Status mark(const std::string& path) {
    for (const Gpu& gpu : gpus_) {
      const auto answer =
          calls_.call("POST", path, kAnswerSoon,
                      nlohmann::json{{"unit", gpu.unit}, {"lent_to", "slurm"}}.dump());
      if (!answer) return answer.error();
      if (const auto jobs = client::jobs_in(*answer); !jobs) return jobs.error();
    }
    return Done{};
  }

  Status update(std::vector<std::string> words) {
    words.insert(words.begin(), {"scontrol", "update"});
    if (!said_by(words)) return no_scontrol(node_);
    return Done{};
  }

  JobCalls calls_;
  std::vector<Gpu> gpus_;
  std::string node_;
  std::vector<std::string> waits_for_;
  std::string slurm_jobs_;
};

std::string done_words(LendStep step) {
  switch (step) {
    case LendStep::kCloseBerth:
      return text("Berth's queue gives the GPUs to no new jobs");
    case LendStep::kOpenSlurm:
      return text("Slurm may give the GPUs to its jobs");
    case LendStep::kCloseSlurm:
      return text("Slurm gives the GPUs to no new jobs");
    case LendStep::kOpenBerth:
      return text("Berth's queue gives the GPUs to jobs");
    default:
      return "";
  }
}

struct Finished {
  Ledgers ledgers;
  std::vector<std::string> steps;
};

Result<Finished> carry_out(const Context& context, Lending& lending, bool is_lend,
                           const std::string& node, std::optional<milliseconds> timeout) {
  const auto deadline = steady_clock::now() + timeout.value_or(milliseconds(0));
  Finished out;
  std::string told;
  milliseconds poll = kFirstPoll;
  for (;;) {
    auto now = lending.look();
    if (!now) return std::move(now).error();
    const LendStep step = is_lend ? engines::step_to_lend(*now) : engines::step_to_take_back(*now);
    if (step == LendStep::kDone) {
      out.ledgers = *std::move(now);
      return out;
    }
    if (step == LendStep::kSlurmUnknown)
      return Error{ErrorCode::kUnavailable, "E1015",
                   text("the node {} does not answer Slurm, so its jobs may still use the GPUs; "
                        "they stay lent",
                        printable(node)),
                   "scontrol show node " + node + "\nsystemctl status slurmd"};
    if (step == LendStep::kWaitForBerth || step == LendStep::kWaitForSlurm) {
      const std::string who =
          step == LendStep::kWaitForBerth ? output::join(lending.waits_for(), ", ")
          : lending.slurm_jobs().empty()
              ? text("Slurm's jobs on {}", printable(node))
              : text("Slurm's jobs on {}: {}", printable(node), lending.slurm_jobs());
      if (timeout && steady_clock::now() >= deadline)
        return Error{
            ErrorCode::kUnavailable, "E1016",
            text("still running after {}: {}; the GPUs get no new jobs until this is done",
                 *context.arguments.value("--timeout"), who),
            fmt::format("sudo berth slurm {} --node {}", is_lend ? "lend" : "reclaim", node)};
      if (who != told) context.err(text("waits for {}", who) + "\n");
      told = who;
      std::this_thread::sleep_for(poll);
      poll = std::min(poll * 2, kLastPoll);
      continue;
    }
    if (auto taken = lending.take(step, *now); !taken) return std::move(taken).error();
    out.steps.push_back(done_words(step));
    if (!context.json) context.out(out.steps.back() + "\n");
  }
}

void say_end(const Context& context, const Finished& finished, const std::vector<Gpu>& gpus,
             const std::string& node, bool is_lend) {
  const engines::NodeState& state = finished.ledgers.node;
  if (context.json) {
    output::JsonWriter json;
    json.open('{');
    json.field("schema", 1);
    json.field("node", node);
    json.rows("gpus", gpus, [&](const Gpu& one) {
      json.field("unit", one.unit);
      json.field("label", one.label);
    });
    json.field("queue", is_lend ? "slurm" : "berth");
    json.field("steps", finished.steps);
    json.text_field("drained_by_others", is_lend && state.drained ? state.reason : "");
    json.close('}');
    context.out(json.finish());
    return;
  }
  std::vector<std::string> labels;
  for (const Gpu& gpu : gpus) labels.push_back(gpu.label);
  const std::string all = output::join(labels, ", ");
  if (finished.steps.empty())
    context.out((is_lend ? text("Slurm already has these GPUs: {}", all)
                         : text("Berth's queue already has these GPUs: {}", all)) +
                "\n");
  if (is_lend && state.drained)
    context.err(text("note: {}", text("the node {} is drained in Slurm for another reason: {}",
                                      printable(node), printable(state.reason))) +
                "\n");
}

}  // namespace

Result<int> slurm_lend(const Context& context, const std::string& word) {
  const bool is_lend = word == "lend";
  const std::string again = "sudo berth slurm " + word;
  if (::geteuid() != 0)
    return Error{ErrorCode::kPermissionDenied, "E0926",
                 text("only an administrator may move GPUs that all users share"), again};
  std::optional<milliseconds> timeout;
  if (const auto given = context.arguments.value("--timeout")) {
    const auto parsed = parse_duration(*given);
    if (!parsed) return parsed.error();
    timeout = *parsed;
  }
  std::error_code ignored;
  if (const auto folder = context.arguments.value("--conf"))
    ::setenv(  // NOLINT(concurrency-mt-unsafe): no thread runs yet
        "SLURM_CONF", (std::filesystem::absolute(*folder, ignored) / "slurm.conf").c_str(), 1);
  std::string node = context.arguments.value("--node").value_or("");
  if (node.empty()) {
    char name[256] = {};
    if (::gethostname(name, sizeof name - 1) == 0) node = name;
    node = node.substr(0, node.find('.'));
  }
  if (!is_node_name(node))
    return Error{ErrorCode::kInvalidArgument, "E1002",
                 text("'{}' is not a node name", printable(node)), again + " --node n1"};
  const auto snapshot = look(context, Processes::kUsers, false);
  if (!snapshot) return snapshot.error();
  std::vector<Gpu> gpus = gpus_of(*snapshot, node);
  if (gpus.empty())
    return Error{ErrorCode::kNoDevice, "E1003",
                 text("there is no GPU that Slurm could give to jobs"), "berth doctor"};
  auto calls = JobCalls::reach_or_start();
  if (!calls) return std::move(calls).error();
  Lending lending(*std::move(calls), gpus, node);
  const auto finished = carry_out(context, lending, is_lend, node, timeout);
  if (!finished) return finished.error();
  say_end(context, *finished, gpus, node, is_lend);
  return 0;
}

}  // namespace berth::cli
