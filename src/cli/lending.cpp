#include "cli/lending.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "cli/job_calls.hpp"
#include "output/words.hpp"

namespace berth::cli {
namespace {

using engines::Ledgers;
using engines::LendStep;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPoll{50}, kLastPoll{2000};

class Lending {
 public:
  Lending(JobCalls calls, OtherQueue& other, const std::vector<LentGpu>& gpus, bool is_lend)
      : calls_(std::move(calls)), other_(other), gpus_(gpus), is_lend_(is_lend) {}

  /// Reads the state of both queues.
  Result<Ledgers> look() {
    const auto answer = calls_.call("GET", "/v1/jobs?running", kAnswerSoon);
    if (!answer) return answer.error();
    const auto jobs = client::jobs_in(*answer);
    if (!jobs) return jobs.error();
    const model::ClosedUnits closed = client::closed_in(*answer);
    auto node = other_.look(is_lend_);
    if (!node) return std::move(node).error();
    Ledgers now{static_cast<int>(gpus_.size()), 0, 0, *std::move(node)};
    waits_for_.clear();
    for (const auto& one : closed.lent)
      now.lent += one.to == other_.scheduler().key && is_one_of_them(one.unit) ? 1 : 0;
    for (const model::Job& job : *jobs)
      if (job.state == model::JobState::kRunning && has_gpu(job)) {
        ++now.leases;
        waits_for_.push_back(text("job {} of {}", model::job_number(job), printable(job.user)));
      }
    return now;
  }

  Status take(LendStep step, const Ledgers& now) {
    switch (step) {
      case LendStep::kCloseBerth:
        return mark("/v1/devices/drain");
      case LendStep::kOpenBerth:
        return mark("/v1/devices/undrain");
      case LendStep::kCloseOther:
        return other_.close(now.node);
      case LendStep::kOpenOther:
        return other_.open(now.node);
      default:
        return Done{};
    }
  }

  /// The jobs of Berth that still use one of the GPUs, and for which the command waits.
  [[nodiscard]] const std::vector<std::string>& waits_for() const { return waits_for_; }

 private:
  [[nodiscard]] bool has_gpu(const model::Job& job) const {
    return std::any_of(job.grants.begin(), job.grants.end(),
                       [&](const model::Grant& grant) { return is_one_of_them(grant.unit); });
  }
  [[nodiscard]] bool is_one_of_them(const std::string& unit) const {
    return std::any_of(gpus_.begin(), gpus_.end(),
                       [&](const LentGpu& gpu) { return gpu.unit == unit; });
  }

  Status mark(const std::string& path) {
    for (const LentGpu& gpu : gpus_) {
      const auto answer = calls_.call(
          "POST", path, kAnswerSoon,
          nlohmann::json{{"unit", gpu.unit}, {"lent_to", other_.scheduler().key}}.dump());
      if (!answer) return answer.error();
      if (const auto jobs = client::jobs_in(*answer); !jobs) return jobs.error();
    }
    return Done{};
  }

  JobCalls calls_;
  OtherQueue& other_;
  const std::vector<LentGpu>& gpus_;
  bool is_lend_;
  std::vector<std::string> waits_for_;
};

std::string done_words(LendStep step, const model::Scheduler& other) {
  switch (step) {
    case LendStep::kCloseBerth:
      return text("Berth's queue starts no new jobs on the GPUs");
    case LendStep::kOpenOther:
      return text("{} may start jobs on the GPUs", other.title);
    case LendStep::kCloseOther:
      return text("{} starts no new jobs on the GPUs", other.title);
    case LendStep::kOpenBerth:
      return text("Berth's queue may start jobs on the GPUs");
    default:
      return "";
  }
}

std::string command_of(const OtherQueue& queue, bool is_lend) {
  return fmt::format("sudo berth {} {}{}", queue.scheduler().verb, is_lend ? "lend" : "reclaim",
                     queue.options());
}

struct Finished {
  Ledgers ledgers;
  std::vector<std::string> steps;
};

Result<Finished> carry_out(const Context& context, Lending& lending, const OtherQueue& other,
                           bool is_lend, std::optional<milliseconds> timeout) {
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
    if (step == LendStep::kOtherUnknown) return other.unknown();
    if (step == LendStep::kWaitForBerth || step == LendStep::kWaitForOther) {
      const std::string who = step == LendStep::kWaitForBerth
                                  ? output::join(lending.waits_for(), ", ")
                                  : other.running();
      if (timeout && steady_clock::now() >= deadline)
        return Error{
            ErrorCode::kUnavailable, "E1016",
            text("still running after {}: {}; the GPUs get no new jobs until they have been moved",
                 *context.arguments.value("--timeout"), who),
            command_of(other, is_lend)};
      if (who != told) context.err(text("waits for {}", who) + "\n");
      told = who;
      std::this_thread::sleep_for(poll);
      poll = std::min(poll * 2, kLastPoll);
      continue;
    }
    if (auto taken = lending.take(step, *now); !taken) return std::move(taken).error();
    out.steps.push_back(done_words(step, other.scheduler()));
    if (!context.json) context.out(out.steps.back() + "\n");
  }
}

void say_end(const Context& context, const Finished& finished, const OtherQueue& other,
             const std::vector<LentGpu>& gpus, bool is_lend) {
  const engines::NodeState& state = finished.ledgers.node;
  if (context.json) {
    output::JsonWriter json;
    json.open('{');
    json.field("schema", 1);
    other.add_to(json);
    json.rows("gpus", gpus, [&](const LentGpu& one) {
      json.field("unit", one.unit);
      json.field("label", one.label);
    });
    json.field("queue", is_lend ? std::string(other.scheduler().key) : "berth");
    json.field("steps", finished.steps);
    json.text_field("drained_by_others", is_lend && state.drained ? state.reason : "");
    json.close('}');
    context.out(json.finish());
    return;
  }
  std::vector<std::string> labels;
  for (const LentGpu& gpu : gpus) labels.push_back(gpu.label);
  const std::string all = output::join(labels, ", ");
  if (finished.steps.empty())
    context.out((is_lend ? text("{} already has these GPUs: {}", other.scheduler().title, all)
                         : text("Berth's queue already has these GPUs: {}", all)) +
                "\n");
  if (is_lend && state.drained)
    context.err(
        text("note: {}",
             text("{} still starts no jobs on these GPUs, because the node is drained there: {}",
                  other.scheduler().title, printable(state.reason))) +
        "\n");
}

}  // namespace

Status may_move(const model::Scheduler& scheduler, const std::string& word) {
  if (::geteuid() == 0) return Done{};
  return Error{ErrorCode::kPermissionDenied, "E0926",
               text("only an administrator may move GPUs that all users share"),
               fmt::format("sudo berth {} {}", scheduler.verb, word)};
}

Result<int> move_gpus(const Context& context, OtherQueue& queue, const std::vector<LentGpu>& gpus,
                      bool is_lend) {
  std::optional<milliseconds> timeout;
  if (const auto given = context.arguments.value("--timeout")) {
    const auto parsed = parse_duration(*given);
    if (!parsed) return parsed.error();
    timeout = *parsed;
  }
  auto calls = JobCalls::reach_or_start();
  if (!calls) return std::move(calls).error();
  Lending lending(*std::move(calls), queue, gpus, is_lend);
  const auto finished = carry_out(context, lending, queue, is_lend, timeout);
  if (!finished) return finished.error();
  say_end(context, *finished, queue, gpus, is_lend);
  return 0;
}

}  // namespace berth::cli
