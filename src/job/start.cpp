#include "job/start.hpp"

#include "base/text.hpp"
#include "inventory/observe.hpp"
#include "job/container.hpp"
#include "model/cpu_list.hpp"
#include "policy/environment.hpp"
#include "run/job_folder.hpp"

namespace berth::job {
namespace {

using std::chrono::milliseconds;

run::Launch launch_of(const Spec& spec, const Plan& plan) {
  run::Launch launch;
  launch.command = spec.job.command;
  auto variables = spec.variables;
  policy::set_variables(plan.environment, variables);
  // BERTH_JOB tells a `berth run` inside the job to use this lease. Without BERTH_JOB it would
  // request another lease, and wait for ever for this job to end.
  if (plan.lease) variables["BERTH_JOB"] = std::to_string(plan.lease->job());
  launch.enclosed = plan.lease && plan.lease->is_enclosed();
  launch.supervision = plan.supervision;
  for (const auto& [name, value] : variables)
    launch.environment.push_back(fmt::format("{}={}", name, value));
  if (!plan.environment.cpus.empty())
    launch.cpus = model::parse_cpu_list(plan.environment.cpus).value_or(std::vector<int>{});
  if (spec.job.grace) launch.grace = *spec.job.grace;
  if (spec.job.warning && spec.job.warning->at_any_end) launch.checkpoint = *spec.job.warning;
  if (const auto& tries = plan.supervision)
    launch.may_start_again =
        tries->leaves_changes_to_front &&
        tries->earlier.all.size() + 1 < static_cast<std::size_t>(tries->most_tries);
  return launch;
}

/// Creates the job's folder. If that fails, returns "" with a note: a job also runs without a
/// folder.
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

/// Adds to the report whether the kernel restricted the job to its devices, and whether that was
/// required.
void add_access(model::Report& report, const Plan& plan, const std::optional<Error>& trouble,
                std::uint64_t refusals) {
  if (plan.lease) report.access = plan.lease->access();
  if (trouble)
    report.notes.push_back(
        text("only environment variables restricted the job to its devices: {} ({})",
             trouble->message, trouble->id));
  if (refusals == 0 || !plan.placement.devices.empty() || report.gpu_use == model::GpuUse::kSeen)
    return;
  report.gpu_use = model::GpuUse::kDeniedByKernel;
  report.gpu_use_method = text_n("the kernel once denied the job access to a GPU's device node",
                                 "the kernel denied the job access to a GPU's device node {} times",
                                 static_cast<long long>(refusals), refusals);
  report.suggestions.clear();
}

/// Sets up the guard, and puts the job into its container. Removes the job's folder if that fails.
Result<Limits> set_limits(const Spec& spec, const Plan& plan, run::Launch& launch) {
  const IsolatedJob job{plan.request,
                        plan.placement,
                        plan.snapshot,
                        spec.container.has_value(),
                        plan.lease ? plan.lease->group() : "",
                        inventory::Sources::from_environment().nvml_library,
                        "",
                        spec.strict};
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

}  // namespace

Start::Start(const Spec& spec, Plan& plan, Limits made, run::Launch with)
    : launch(std::move(with)),
      limits(std::move(made)),
      begun(report_of(spec, plan)),
      sampler(inventory::Sources::from_environment(), plan.snapshot, plan.placement,
              plan.supervision != nullptr),
      watcher(sampler, plan.lease, limits.guard, plan.supervision.get()) {
  sampler.also_watch(limits.container_id);
}

std::uint64_t Start::guard_refusals() const {
  model::Report report;
  limits.guard.fill(report);
  std::uint64_t refusals = 0;
  if (report.guarded)
    for (const auto& device : report.guarded->devices) refusals += device.refusals;
  return refusals;
}

std::vector<model::DeviceUse> Start::devices_used(const run::Ending& how,
                                                  const model::Snapshot& snapshot) {
  model::Report report;
  report.wall = how.wall;
  sampler.fill(report, snapshot);
  return std::move(report.devices);
}

void Start::fill(model::Report& report, const Plan& plan, std::uint64_t refusals) {
  sampler.fill(report, plan.snapshot);
  add_access(report, plan, watcher.trouble(), refusals);
  limits.guard.fill(report);
  sampler.fill_bottlenecks(report, plan.snapshot);
  if (const auto why = plan.lease ? plan.lease->ended_because() : ""; !why.empty())
    report.notes.push_back(text("the job was ended: {}", why));
}

Result<std::unique_ptr<Start>> start_once(const Spec& spec, Plan& plan, const Caller& caller,
                                          run::Inherited& inherited) {
  run::Launch launch = launch_of(spec, plan);
  launch.job_folder = folder_or_note(caller.note);
  auto limits = set_limits(spec, plan, launch);
  if (!limits) return std::move(limits).error();
  auto start = std::make_unique<Start>(spec, plan, *std::move(limits), std::move(launch));
  start->ending = run::run_job(start->launch, inherited, start->watcher);
  start->limits.guard.end();
  run::remove_job_folder(start->launch.job_folder);
  return start;
}

}  // namespace berth::job
