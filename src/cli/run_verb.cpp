// `berth run` and `berth lease`: request → look at the machine → lease → placement → environment →
// job → report.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/exit_code.hpp"
#include "cli/job_guard.hpp"
#include "cli/queue.hpp"
#include "cli/rank_options.hpp"
#include "cli/request_options.hpp"
#include "cli/verbs.hpp"
#include "client/lease.hpp"
#include "client/machine.hpp"
#include "engines/allocation.hpp"
#include "inventory/observe.hpp"
#include "model/cpu_list.hpp"
#include "model/device_use.hpp"
#include "model/tries.hpp"
#include "output/error.hpp"
#include "output/report.hpp"
#include "policy/demand.hpp"
#include "policy/environment.hpp"
#include "policy/placement.hpp"
#include "run/front.hpp"
#include "run/job_folder.hpp"
#include "run/sampler.hpp"
#include "run/tries_record.hpp"

namespace berth::cli {
namespace {

using std::chrono::milliseconds;
using Variables = std::map<std::string, std::string>;

/// The decisions made before anything starts.
struct Plan {
  model::Request request;  // if there is a lease: as granted
  model::Snapshot snapshot;
  std::optional<client::Lease> lease;  // none: the job uses the CPU, or there is no broker
  model::Placement placement;
  model::Environment environment;
  std::optional<milliseconds>
      turned_after;  // its GPUs were not free for this long, so it runs on the CPU
  std::optional<model::EngineJob> engine;  // set if a cluster's scheduler assigned the devices
  std::shared_ptr<run::Supervision> supervision;  // for a job with ranks; else nullptr
};

Result<model::Placement> placement_of(const Plan& plan) {
  auto placement = plan.lease ? plan.lease->placement(plan.request, plan.snapshot)
                              : policy::place(plan.request, plan.snapshot);
  if (placement && plan.turned_after)
    placement->reasons = {
        text("on the CPU: its GPUs were not free for {}", show_duration(*plan.turned_after))};
  return placement;
}

/// As exit_code_of, but 125 for anything except usage errors: small numbers are the command's.
int exit_code_for_run(const Error& error, bool no_wait) {
  if (error.id == "E0510") return kNotFound;
  if (error.id == "E0511") return kNotExecutable;
  if (error.id == "E0412" && no_wait) return kRefused;
  return error.code == ErrorCode::kInvalidArgument ? kUsage : kOurFailure;
}

/// Whether the request must not wait for devices: --no-wait, or --dry-run, which shows what is free
/// now.
bool never_waits(const Context& context) {
  return context.arguments.has("--no-wait") || context.arguments.has("--dry-run");
}

int fail(const Context& context, const Error& error) {
  const int code = exit_code_for_run(error, never_waits(context));
  context.err(context.json ? output::error_json(error, code)
                           : output::show_error(error, context.err_terminal));
  return code;
}

void note(const Context& context, const std::string& sentence, const std::string& hint = {}) {
  if (context.json) return;
  context.err(text("note: {}", sentence) + "\n");
  if (!hint.empty()) context.err(text("hint: {}", hint) + "\n");
}

/// If the kernel lets only jobs open GPUs, Berth sees none, and the broker says which exist.
void ask_the_broker(model::Snapshot& seen) {
  const auto gpus = [](const model::Snapshot& of) {
    return std::count_if(of.devices.begin(), of.devices.end(), model::is_gpu);
  };
  if (gpus(seen) > 0 && seen.driver.state != "error" && seen.driver.state != "no answer") return;
  auto client = client::broker_here(client::IfNone::kGlance);
  if (!client) return;
  const auto answer = client->call("GET", "/v1/machine");
  if (!answer) return;
  auto told = client::machine_in(*answer);
  if (!told || gpus(*told) <= gpus(seen)) return;
  seen.devices = std::move(told->devices);
  seen.driver = std::move(told->driver);
  seen.processes = std::move(told->processes);
  seen.unattributed = std::move(told->unattributed);
}

/// Tells the user what it waits for, and how to start without waiting.
void note_waiting(const Context& context, const model::Request& request, const Error& held) {
  note(context, text("waiting: {}", held.message));
  if (context.json || held.hint.empty()) return;
  for (const std::string_view hint : split(held.hint, '\n'))
    context.err(text("hint: {}", hint) + "\n");
  context.err(text("hint: {}", fmt::format("berth {} --no-wait …", request.verb)) + "\n");
}

model::Snapshot look(const Context& context, bool details) {
  inventory::Options options;
  options.process_details = details;
  options.holders = details;
  // OpenCL devices are never given to a job; they only count if the user names a device.
  if (!context.arguments.has("--devices")) options.opencl = inventory::OpenCl::kNever;
  options.on_slow = [&](std::string_view sentence) { note(context, std::string(sentence)); };
  auto seen = inventory::observe(inventory::Sources::from_environment(), options);
  ask_the_broker(seen);
  return seen;
}

/// The broker's leases. If the broker does not answer, a note says so, because they are not known.
model::Ledger ledger_or_note(const Context& context) {
  auto ledger = client::ledger_now();
  if (ledger) return *std::move(ledger);
  note(
      context,
      text("the devices of jobs are not known: {} ({})", ledger.error().message, ledger.error().id),
      ledger.error().hint);
  return {};
}

/// Without a broker nothing reports when a device becomes free, so this looks again periodically. A
/// broker that cannot give leases, because its disk is full, still knows the leases that it gave.
Result<model::Placement> wait_for_place(const Context& context, const model::Job& job,
                                        const model::Request& request, model::Snapshot& snapshot) {
  const auto begun = std::chrono::steady_clock::now();
  const auto ledger_now = [] {
    auto ledger = client::ledger_now();
    return ledger ? *std::move(ledger) : model::Ledger();
  };
  auto placement = policy::place(request, snapshot, ledger_now());
  if (placement || placement.error().id != "E0412") return placement;
  snapshot = look(context, true);  // for the error: who holds which device
  placement = policy::place(request, snapshot, ledger_now());
  bool said = false;
  while (!placement && placement.error().id == "E0412" && !never_waits(context)) {
    ::poll(nullptr, 0, said ? 2000 : 1000);
    if (!said) note_waiting(context, request, placement.error());
    said = true;
    snapshot = look(context, true);
    placement = policy::place(request, snapshot, ledger_now());
    if (!placement && job.or_cpu_after &&
        std::chrono::steady_clock::now() - begun >= *job.or_cpu_after)
      placement = policy::place(policy::on_cpu(request), snapshot, ledger_now());
  }
  return placement;
}

/// A job on a device, or with its own cores, takes a lease. A job on the CPU is only reported to a
/// broker that runs already; it starts none.
Result<std::optional<client::Lease>> lease_for(const Context& context, model::Job job,
                                               const model::Request& request,
                                               const model::Snapshot& snapshot) {
  auto around = client::Lease::around_us(request);
  if (!around || *around) return around;
  const auto place = policy::place(request, snapshot);
  if (!place && place.error().id != "E0412") return place.error();
  const bool needed = !place || !place->devices.empty() || request.cpus || job.time_limit;
  job.request = request;
  const client::Lease::Wishes wishes{std::move(job), !never_waits(context), [&](const Error& held) {
                                       note_waiting(context, request, held);
                                     }};
  auto lease = client::Lease::take(wishes, snapshot,
                                   needed ? client::IfNone::kStart : client::IfNone::kGlance);
  if (lease) return std::optional(*std::move(lease));
  const Error& error = lease.error();
  // If the broker does not answer, its leases are unknown, so take no devices.
  const bool no_broker = (error.code == ErrorCode::kUnavailable || error.id == "E0921") &&
                         (error.id != "E0922" || !needed);
  if (!no_broker) return error;
  if (needed && !client::is_another_machine())
    note(context, text("no lease: {} ({}); another job may choose the same device", error.message,
                       error.id));
  return std::optional<client::Lease>();
}

/// In a Slurm job Slurm assigns the devices: take no lease, and do not wait.
Status enter_allocation(Plan& plan, model::Request& request, const Variables& variables) {
  plan.engine = engines::slurm_job(variables);
  if (!plan.engine) return Done{};
  auto inside = engines::within(
      engines::allocation_of(*plan.engine, variables, request, plan.snapshot), request);
  if (!inside) return std::move(inside).error();
  request = *std::move(inside);
  return Done{};
}

Result<Plan> make_plan(const Context& context, model::Request request, const SupervisionWish& wish,
                       const Variables& variables) {
  Plan plan;
  plan.snapshot = look(context, false);
  request = request_for_ranks(std::move(request), wish, plan.snapshot);
  if (auto entered = enter_allocation(plan, request, variables); !entered)
    return std::move(entered).error();
  const auto job = job_of(context.arguments, request);
  if (!job) return job.error();
  // If no such device exists, do not wait for one.
  if (const auto place = policy::place(request, plan.snapshot);
      job->or_cpu_after && !place && place.error().code == ErrorCode::kNoDevice)
    request = policy::on_cpu(request);
  const bool dry = context.arguments.has("--dry-run");
  if (!dry && !plan.engine) {
    auto lease = lease_for(context, *job, request, plan.snapshot);
    if (!lease) return std::move(lease).error();
    plan.lease = *std::move(lease);
    if (plan.lease && plan.lease->request(request).gpus != request.gpus) {
      note(context, text("its GPUs were not free for {}: it runs on the CPU",
                         show_duration(*job->or_cpu_after)));
      request = plan.lease->request(request);
      plan.turned_after = job->or_cpu_after;
    }
    if (plan.lease && plan.lease->waited()) plan.snapshot = look(context, false);
  }
  plan.request = request;
  auto placement = plan.lease ? placement_of(plan)
                   : dry      ? policy::place(request, plan.snapshot, ledger_or_note(context))
                              : wait_for_place(context, *job, request, plan.snapshot);
  if (!placement) return std::move(placement).error();
  plan.placement = std::move(*placement);
  plan.environment = policy::environment_for(plan.placement, plan.snapshot, variables,
                                             environment_options(context.arguments));
  auto supervision = supervision_of(wish, request, plan.placement, plan.snapshot, plan.environment);
  if (!supervision) return std::move(supervision).error();
  plan.supervision = *std::move(supervision);
  if (plan.supervision) plan.supervision->quiet = context.json;
  return plan;
}

run::Launch launch_of(const Context& context, const Plan& plan, Variables variables) {
  run::Launch launch;
  launch.command = context.arguments.command;
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
  if (const auto grace = parse_duration(context.arguments.value("--grace").value_or("")))
    launch.grace = *grace;
  return launch;
}

/// --report FILE, opened before the job starts, so that a wrong name is reported before hours of
/// work.
struct ReportFile {
  std::string path;
  Descriptor file;
};

Result<ReportFile> open_report(const Context& context) {
  ReportFile report;
  const std::string path = context.arguments.value("--report").value_or("-");
  if (path == "-" || path == "none") return report;
  report.path = path;
  report.file.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666));
  if (report.file) return report;
  return Error{ErrorCode::kUnavailable, "E0515",
               text("the report cannot be written to {}: {}", printable(path), error_words(errno)),
               "ls -ld \"$(dirname " + printable(path) + ")\""};
}

void write_report(const Context& context, const ReportFile& report, std::string_view bytes) {
  struct stat status = {};
  if (::fstat(report.file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
      ::ftruncate(report.file.get(), 0) != 0)
    return;
  while (!bytes.empty()) {
    const ssize_t n = ::write(report.file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      note(context, text("the report cannot be written to {}: {}", printable(report.path),
                         error_words(errno)) +
                        " (E0515)");
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

model::Report report_of(const Context& context, const Plan& plan, const model::Request& request) {
  model::Report report;
  report.command = context.arguments.command;
  report.name = context.arguments.value("--name").value_or("");
  report.threads = plan.environment.threads;
  report.cpus = plan.environment.cpus;
  report.settings = plan.environment.settings;
  report.on_cpu_by_request = request.gpus == 0;
  if (plan.lease) report.job = plan.lease->job();
  report.engine = plan.engine;
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
  if (ending.left > 0)
    report.notes.push_back(
        text_n("{} process of the job could not be ended: another user's, or in the kernel",
               "{} processes of the job could not be ended: another user's, or in the kernel",
               ending.left, ending.left));
  if (ending.pin_error != 0)
    report.notes.push_back(
        text("the processors could not be set ({}); the job ran on all it may use",
             error_words(ending.pin_error)));
}

/// Whether the kernel restricted the job to its devices, and whether that was required.
void add_access(model::Report& report, const Plan& plan, const std::optional<Error>& trouble,
                std::uint64_t refusals) {
  if (plan.lease) report.access = plan.lease->access();
  if (trouble)
    report.notes.push_back(text("the job was kept from other devices by variables only: {} ({})",
                                trouble->message, trouble->id));
  if (refusals == 0 || !plan.placement.devices.empty() || report.gpu_use == model::GpuUse::kSeen)
    return;
  report.gpu_use = model::GpuUse::kDeniedByKernel;
  report.gpu_use_method = text_n("the kernel refused it a GPU's device node once",
                                 "the kernel refused it a GPU's device node {} times",
                                 static_cast<long long>(refusals), refusals);
  report.suggestions.clear();
}

/// Writes a report again, in the language of its reader.
using Form = std::function<model::Report()>;

/// JSON is for programs: only --lang changes its language, as in all verbs.
std::string json_of(const Context& context, const Form& form) {
  const Language people = language();
  if (!context.arguments.has("--lang")) set_language(Language::kEnglish);
  std::string json = output::report_json(form());
  set_language(people);
  return json;
}

void say(const Context& context, const ReportFile& file, const Form& form) {
  if (file.file) write_report(context, file, json_of(context, form));
  if (context.json) {
    context.err(json_of(context, form));
    return;
  }
  const model::Report report = form();
  const auto asked = context.arguments.value("--report");
  const bool text_wanted = asked ? *asked == "-" : context.err_terminal.tty;
  if (text_wanted) {
    context.err(
        output::report_text(report, context.err_terminal, context.arguments.has("--verbose")));
    return;
  }
  for (const std::string& sentence : output::left_behind_sentences(report)) note(context, sentence);
  for (const std::string& sentence : output::failure_sentences(report)) note(context, sentence);
  for (const std::string& sentence : report.notes) note(context, sentence);
}

model::Outcome outcome_of(const Error& error) {
  model::Outcome outcome;
  outcome.kind = error.id == "E0510"   ? model::OutcomeClass::kNotFound
                 : error.id == "E0511" ? model::OutcomeClass::kNotExecutable
                                       : model::OutcomeClass::kLost;
  outcome.exit_code = exit_code_for_run(error, false);
  return outcome;
}

/// If the command cannot be executed, its error goes to stderr and to the report file.
void report_no_start(const Context& context, const ReportFile& file, const Form& form,
                     const Error& error) {
  if (!file.file) return;
  write_report(context, file, json_of(context, [&] {
                 model::Report report = form();
                 report.outcome = outcome_of(error);
                 return report;
               }));
}

/// The sampler. It also passes the lease on to the keeper, which may outlive us by a moment.
class LeasedJob : public run::Watcher {
 public:
  LeasedJob(run::Watcher& watcher, std::optional<client::Lease>& lease)
      : watcher_(watcher), lease_(lease) {}
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
  void look() override { watcher_.look(); }
  void ended() override { watcher_.ended(); }
  [[nodiscard]] int descriptor() const override { return watcher_.descriptor(); }

 private:
  run::Watcher& watcher_;
  std::optional<client::Lease>& lease_;
  std::optional<Error> trouble_;
  bool shared_ = false;
};

/// Nothing was started: the report says why.
int refuse(const Context& context, const Error& error) {
  const int code = exit_code_for_run(error, never_waits(context));
  if (!context.arguments.has("--dry-run"))
    if (const auto file = open_report(context); file && file->file)
      write_report(context, *file, output::error_json(error, code));
  return fail(context, error);
}

Result<int> run_plan(const Context& context, const model::Request& request, Plan& plan,
                     const Variables& variables, run::Inherited& inherited) {
  const auto file = open_report(context);
  if (!file) return file.error();
  run::Launch launch = launch_of(context, plan, variables);
  auto folder = run::make_job_folder();
  if (folder)
    launch.job_folder = *folder;
  else
    note(context,
         text("{} ({}); the job runs all the same", folder.error().message, folder.error().id),
         folder.error().hint);
  auto guard = JobGuard::begin(context.arguments, plan.request, plan.placement, plan.snapshot,
                               launch.job_folder, launch.environment);
  if (!guard) return std::move(guard).error();
  const model::Report report = report_of(context, plan, request);
  const Form begun = [&] {
    model::Report again = report;
    if (auto placement = placement_of(plan)) again.reasons = std::move(placement->reasons);
    return again;
  };
  run::Sampler sampler(inventory::Sources::from_environment(), plan.snapshot, plan.placement);
  LeasedJob watcher(sampler, plan.lease);
  auto ending = run::run_job(launch, inherited, watcher);
  guard->end();
  run::remove_job_folder(launch.job_folder);
  const std::uint64_t refusals =
      plan.lease ? plan.lease->end(ending ? ending->outcome : outcome_of(ending.error())) : 0;
  if (!ending) {
    report_no_start(context, *file, begun, ending.error());
    return fail(context, ending.error());
  }
  if (const auto told = plan.lease ? plan.lease->outcome_if_told_to_end() : std::nullopt) {
    ending->outcome = *told;
    ending->interrupted = false;
  }
  say(context, *file, [&] {
    model::Report whole = begun();
    add_ending(whole, *ending);
    if (plan.supervision)
      whole.tries = std::make_shared<model::Tries>(run::read_record(plan.supervision->record));
    sampler.fill(whole, plan.snapshot);
    add_access(whole, plan, watcher.trouble(), refusals);
    guard->fill(whole);
    if (const auto why = plan.lease ? plan.lease->ended_because() : ""; !why.empty())
      whole.notes.push_back(text("the job was ended: {}", why));
    return whole;
  });
  if (ending->interrupted) run::die_of_interrupt();
  return ending->outcome.exit_code;
}

Result<int> run_or_say_why_not(const Context& context) {
  run::Inherited inherited = run::inherit();
  const std::vector<std::string>& command = context.arguments.command;
  if (command.empty() || command.front().empty()) {
    return Error{ErrorCode::kInvalidArgument, "E0516", text("there is no command to run"),
                 "berth run -- python train.py"};
  }
  // A queued job starts elsewhere, so the variables of a surrounding job do not apply to it.
  const Variables variables = context.arguments.has("--queue")
                                  ? policy::without_berths(whole_environment())
                                  : whole_environment();
  const auto request = parse_request(context.arguments, variables);
  if (!request) return request.error();
  if (auto known = JobGuard::check(context.arguments); !known) return std::move(known).error();
  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  const auto wish = parse_supervision(context.arguments);
  if (!wish) return wish.error();
  if (context.arguments.has("--queue") && !wish->is_needed())
    return queue_job(context, *request, variables);
  if (context.arguments.has("--queue")) {
    Context inside = context;
    const auto whole = request_for_ranks(*request, *wish, look(context, false));
    inside.arguments.command = command_in_queue(context.arguments, whole);
    inside.arguments.options.erase("--report");
    return queue_job(inside, whole, variables);
  }
  if (auto sound = check_not_queued(context.arguments); !sound) return std::move(sound).error();
  auto plan = make_plan(context, *request, *wish, variables);
  if (!plan) return std::move(plan).error();
  if (context.arguments.has("--dry-run")) {
    context.out(context.json
                    ? output::plan_json(command, plan->environment, plan->placement, plan->snapshot)
                    : output::plan_text(command, plan->environment, plan->placement, plan->snapshot,
                                        context.out_terminal));
    return 0;
  }
  return run_plan(context, *request, *plan, variables, inherited);
}

}  // namespace

Result<int> run_run(const Context& context) {
  const auto code = run_or_say_why_not(context);
  return code ? *code : refuse(context, code.error());
}

Result<int> run_lease(const Context& context) {
  Context shell = context;
  std::vector<std::string>& command = shell.arguments.command;
  if (command.empty()) command = {env_nonempty("SHELL").value_or("/bin/sh")};
  // The user of an interactive shell asked for devices, not for a report.
  if (!context.arguments.has("--report")) shell.arguments.options["--report"] = {"none"};
  return run_run(shell);
}

}  // namespace berth::cli
