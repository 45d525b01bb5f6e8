#include "job/job.hpp"

#include "base/error_words.hpp"
#include "base/exit_code.hpp"
#include "base/text.hpp"
#include "inventory/observe.hpp"
#include "job/container.hpp"
#include "job/guard.hpp"
#include "model/cpu_list.hpp"
#include "model/tries.hpp"
#include "policy/environment.hpp"
#include "run/front.hpp"
#include "run/job_folder.hpp"
#include "run/other_launcher.hpp"
#include "run/queued_watch.hpp"
#include "run/sampler.hpp"
#include "run/tries_record.hpp"

namespace berth::job {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMostToKeepReport(1'000);

model::Outcome outcome_of(const Error& error) {
  model::Outcome outcome;
  outcome.kind = error.id == "E0510"   ? model::OutcomeClass::kNotFound
                 : error.id == "E0511" ? model::OutcomeClass::kNotExecutable
                                       : model::OutcomeClass::kLost;
  outcome.exit_code = exit_code_of(error, true);
  return outcome;
}

/// Samples the job, and passes the lease on to the keeper, which may live slightly longer than this
/// process. It also lets the guard compare its counters with the driver's.
class LeasedJob : public run::Watcher {
 public:
  LeasedJob(run::Sampler& watcher, std::optional<client::Lease>& lease, Guard& guard)
      : watcher_(watcher), lease_(lease), guard_(guard) {}
  void born(pid_t keeper) override {
    const auto entered = lease_->enter(keeper);
    if (entered)
      shared_ = true;
    else
      trouble_ = entered.error();
  }
  void started(pid_t keeper, pid_t workload) override {
    watcher_.started(keeper, workload);
    if (lease_ && !shared_) lease_->share_with(keeper);
  }
  /// Why the job could not be moved to its control group.
  [[nodiscard]] const std::optional<Error>& trouble() const { return trouble_; }
  [[nodiscard]] std::chrono::steady_clock::time_point due() const override {
    return watcher_.due();
  }
  void look() override {
    watcher_.look();
    guard_.look(lease_, watcher_);
  }
  void ended() override { watcher_.ended(); }
  [[nodiscard]] int descriptor() const override { return watcher_.descriptor(); }

 private:
  run::Sampler& watcher_;
  std::optional<client::Lease>& lease_;
  Guard& guard_;
  std::optional<Error> trouble_;
  bool shared_ = false;
};

run::Launch launch_of(const Spec& spec, const Plan& plan) {
  run::Launch launch;
  launch.command = spec.job.command;
  auto variables = spec.variables;
  policy::set_variables(plan.environment, variables);
  // Otherwise a `berth run` inside the job would request another lease, and wait for this one for
  // ever.
  if (plan.lease) variables["BERTH_JOB"] = std::to_string(plan.lease->job());
  launch.enclosed = plan.lease && plan.lease->is_enclosed();
  launch.supervision = plan.supervision;
  for (const auto& [name, value] : variables)
    launch.environment.push_back(fmt::format("{}={}", name, value));
  if (!plan.environment.cpus.empty())
    launch.cpus = model::parse_cpu_list(plan.environment.cpus).value_or(std::vector<int>{});
  if (spec.job.grace) launch.grace = *spec.job.grace;
  if (spec.job.warning && spec.job.warning->at_any_end) launch.checkpoint = *spec.job.warning;
  return launch;
}

/// The job's folder, or "". A job also runs without a folder.
std::string folder_or_note(const Note& note) {
  auto folder = run::make_job_folder();
  if (folder) return *std::move(folder);
  const Error& error = folder.error();
  note(text("{} ({}); the job runs anyway", error.message, error.id),
       error.hint.empty() ? std::vector<std::string>() : std::vector{error.hint});
  return "";
}

/// The parts of the report that are known before the start.
model::Report report_of(const Spec& spec, const Plan& plan) {
  model::Report report;
  report.command = spec.job.command;
  report.name = spec.job.name;
  report.threads = plan.environment.threads;
  report.cpus = plan.environment.cpus;
  report.settings = plan.environment.settings;
  report.on_cpu_by_request = spec.job.request.gpus == 0;
  if (plan.lease) report.job = plan.lease->job();
  report.engine = plan.engine;
  if (spec.container)
    report.container = {engines::name(spec.container->engine), spec.container->image};
  report.started_unix_milliseconds =
      std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  return report;
}

void add_ending(model::Report& report, const run::Ending& ending) {
  report.outcome = ending.outcome;
  report.wall = ending.wall;
  report.cpu = ending.cpu;
  report.peak_rss_bytes = ending.peak_rss_bytes;
  report.left_behind = ending.left_behind;
  report.checkpoint = ending.checkpoint;
  if (ending.left > 0)
    report.notes.push_back(
        text_n("{} process of the job could not be ended: another user's, or in the kernel",
               "{} processes of the job could not be ended: another user's, or in the kernel",
               ending.left, ending.left));
  if (ending.pin_error != 0)
    report.notes.push_back(
        text("the CPU affinity could not be set ({}); the job could run on all allowed cores",
             error_words(ending.pin_error)));
}

/// Whether the kernel restricted the job to its devices, and whether that was required.
void add_access(model::Report& report, const Plan& plan, const std::optional<Error>& trouble,
                std::uint64_t refusals) {
  if (plan.lease) report.access = plan.lease->access();
  if (trouble)
    report.notes.push_back(
        text("only environment variables kept the job from other devices: {} ({})",
             trouble->message, trouble->id));
  if (refusals == 0 || !plan.placement.devices.empty() || report.gpu_use == model::GpuUse::kSeen)
    return;
  report.gpu_use = model::GpuUse::kDeniedByKernel;
  report.gpu_use_method = text_n("the kernel once denied it access to a GPU's device node",
                                 "the kernel denied it access to a GPU's device node {} times",
                                 static_cast<long long>(refusals), refusals);
  report.suggestions.clear();
}

struct Limits {
  Guard guard;
  std::string container_id;  // the file for it; "" not needed
};

/// Sets up the guard, and puts the job into its container. Removes the job's folder if that fails.
Result<Limits> set_limits(const Spec& spec, const Plan& plan, run::Launch& launch) {
  const IsolatedJob job{plan.request,
                        plan.placement,
                        plan.snapshot,
                        spec.container.has_value(),
                        plan.lease ? plan.lease->group() : "",
                        inventory::Sources::from_environment().nvml_library,
                        ""};
  auto guard = Guard::begin(spec.isolation, job, launch.job_folder, launch.environment);
  if (!guard) return std::move(guard).error();
  Limits limits{*std::move(guard), ""};
  if (!spec.container) return limits;
  auto entered = enter_container(*spec.container, plan, limits.guard.files(), launch);
  if (!entered) {
    limits.guard.end();
    run::remove_job_folder(launch.job_folder);
    return std::move(entered).error();
  }
  limits.container_id = *std::move(entered);
  return limits;
}

/// If the broker ended the job, its outcome counts, not the exit code of the command.
void settle_outcome(const Plan& plan, run::Ending& ending) {
  const auto told = plan.lease ? plan.lease->outcome_if_told_to_end() : std::nullopt;
  if (!told) return;
  ending.outcome = *told;
  ending.interrupted = false;
}

/// Returns how often the kernel denied the job access to a device of others.
std::uint64_t end_lease(Plan& plan, const Result<run::Ending>& ending) {
  if (!plan.lease) return 0;
  if (!ending) return plan.lease->end(outcome_of(ending.error()));
  return plan.lease->end(ending->outcome, {ending->cpu, ending->peak_rss_bytes});
}

}  // namespace

int exit_code_of(const Error& error, bool may_wait) {
  if (error.id == "E0510") return kNotFound;
  if (error.id == "E0511") return kNotExecutable;
  if (error.id == "E0412" && !may_wait) return kRefused;
  return error.code == ErrorCode::kInvalidArgument ? kUsage : kOurFailure;
}

Result<int> perform(const Spec& spec, Machine& machine, const Caller& caller,
                    run::Inherited& inherited) {
  // Plan: read the state of the machine, take the lease, choose devices and variables.
  auto plan = make_plan(spec, machine, caller.note);
  if (!plan) return std::move(plan).error();
  if (spec.dry_run) {
    if (spec.container) {
      auto words = container_words(*spec.container, *plan, spec.job.command);
      if (!words) return std::move(words).error();
      plan->container = *std::move(words);
    }
    caller.show_plan(*plan);
    return 0;
  }
  if (auto ready = caller.before_start(); !ready) return std::move(ready).error();

  // Launch and watch, until none of the job's processes is left.
  run::Launch launch = launch_of(spec, *plan);
  if (const auto launcher = run::other_launcher(launch.command))
    caller.note(run::needless_sentence(*launcher), {});
  launch.job_folder = folder_or_note(caller.note);
  auto limits = set_limits(spec, *plan, launch);
  if (!limits) return std::move(limits).error();
  Guard* guard = &limits->guard;
  const model::Report begun = report_of(spec, *plan);
  run::Sampler sampler(inventory::Sources::from_environment(), plan->snapshot, plan->placement,
                       plan->supervision != nullptr);
  sampler.also_watch(limits->container_id);
  LeasedJob watcher(sampler, plan->lease, *guard);
  auto ending = run::run_job(launch, inherited, watcher);

  // Outcome: the lease ends at the same time.
  guard->end();
  run::remove_job_folder(launch.job_folder);
  const std::uint64_t refusals = end_lease(*plan, ending);
  if (!ending) {
    caller.report_no_start(
        [&] {
          model::Report report = begun;
          report.reasons = reasons_of(*plan);
          report.outcome = outcome_of(ending.error());
          return report;
        },
        ending.error());
    return exit_code_of(ending.error(), spec.waits());
  }
  settle_outcome(*plan, *ending);

  // Report.
  const MakeReport report_of_run = [&] {
    model::Report report = begun;
    report.reasons = reasons_of(*plan);
    add_ending(report, *ending);
    if (plan->supervision)
      report.tries = std::make_shared<model::Tries>(run::read_record(plan->supervision->record));
    sampler.fill(report, plan->snapshot);
    add_access(report, *plan, watcher.trouble(), refusals);
    guard->fill(report);
    sampler.fill_bottlenecks(report, plan->snapshot);
    if (const auto why = plan->lease ? plan->lease->ended_because() : ""; !why.empty())
      report.notes.push_back(text("the job was ended: {}", why));
    return report;
  };
  caller.report(report_of_run);
  // Inside another job, that job's report is kept, and not this one.
  if (plan->lease && plan->lease->is_ours() && ending->wall >= run::kWatchFrom)
    plan->lease->keep_report(caller.stored_report(report_of_run), kMostToKeepReport);
  if (caller.ended) caller.ended(ending->outcome, ending->wall);
  if (ending->interrupted) run::die_of_interrupt();
  return ending->outcome.exit_code;
}

}  // namespace berth::job
