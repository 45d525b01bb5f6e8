// `berth run` and `berth lease`: makes a job from the options, passes it to job::perform, and
// prints notes, plan and report.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "base/write_file.hpp"
#include "cli/after_run.hpp"
#include "cli/container_options.hpp"
#include "cli/measured_estimate.hpp"
#include "cli/queue.hpp"
#include "cli/rank_options.hpp"
#include "cli/request_options.hpp"
#include "cli/verbs.hpp"
#include "inventory/observe.hpp"
#include "job/guard.hpp"
#include "job/job.hpp"
#include "output/error.hpp"
#include "output/report.hpp"
#include "output/words.hpp"
#include "run/queued_tries.hpp"
#include "run/queued_watch.hpp"

namespace berth::cli {
namespace {

using Variables = std::map<std::string, std::string>;

void note(const Context& context, const std::string& sentence,
          const std::vector<std::string>& hints = {}) {
  if (context.json) return;
  context.err(text("note: {}", sentence) + "\n");
  for (const std::string& hint : hints) context.err(text("hint: {}", hint) + "\n");
}

/// The exit code of `berth run` if it fails before it starts the command.
int exit_code(const Context& context, const Error& error) {
  return job::exit_code_of(
      error, !context.arguments.has("--no-wait") && !context.arguments.has("--dry-run"));
}

int fail(const Context& context, const Error& error) {
  const int code = exit_code(context, error);
  context.err(context.json ? output::error_json(error, code)
                           : output::show_error(error, context.err_terminal));
  return code;
}

/// Holds the file that --report names. It is opened before the job starts, so that a wrong name is
/// reported before hours of work.
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
  if (!write_all(report.file.get(), bytes))
    note(context, text("the report cannot be written to {}: {}", printable(report.path),
                       error_words(errno)) +
                      " (E0515)");
}

/// The report as JSON. Its language depends only on --lang and not on the locale, because JSON is
/// for programs.
std::string json_of(const Context& context, const job::MakeReport& make) {
  const Language people = language();
  if (!context.arguments.has("--lang")) set_language(Language::kEnglish);
  std::string json = output::report_json(make());
  set_language(people);
  return json;
}

void say(const Context& context, const ReportFile& file, const job::MakeReport& make) {
  if (file.file) write_report(context, file, json_of(context, make));
  if (context.json) {
    context.err(json_of(context, make));
    return;
  }
  const model::Report report = make();
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

/// Takes over an open file whose number is in `variable`. A queued job with ranks or retries runs
/// `berth run`, and the job's keeper process passes it files for the report and the list of tries.
/// The program must not inherit them.
Descriptor take_from_keeper(const char* variable, run::Inherited& inherited) {
  const auto given = env_nonempty(variable);
  ::unsetenv(variable);
  const auto number = given ? to_number(*given) : std::nullopt;
  struct stat about = {};
  if (!number || *number < 3 || *number > INT_MAX ||
      ::fstat(static_cast<int>(*number), &about) != 0 || !S_ISREG(about.st_mode))
    return {};
  Descriptor file(static_cast<int>(*number));
  ::fcntl(file.get(), F_SETFD, FD_CLOEXEC);
  std::erase(inherited.descriptors, file.get());
  return file;
}

struct FromKeeper {
  Descriptor report, tries;  // both are -1 outside of queued jobs
};

void show_plan(const Context& context, const job::Plan& plan) {
  const std::vector<std::string>& command =
      plan.container.empty() ? context.arguments.command : plan.container;
  context.out(context.json
                  ? output::plan_json(command, plan.environment, plan.placement, plan.snapshot)
                  : output::plan_text(command, plan.environment, plan.placement, plan.snapshot,
                                      context.out_terminal));
}

/// Ends without starting the command. Writes the reason into the report.
int refuse(const Context& context, const Error& error) {
  if (!context.arguments.has("--dry-run"))
    if (const auto file = open_report(context); file && file->file)
      write_report(context, *file, output::error_json(error, exit_code(context, error)));
  return fail(context, error);
}

Result<int> perform(const Context& context, const job::Spec& spec, job::Machine& machine,
                    const job::Note& tell, run::Inherited& inherited, const AfterRun& after,
                    const FromKeeper& from_keeper) {
  ReportFile file;
  job::Caller caller;
  caller.note = tell;
  caller.show_plan = [&](const job::Plan& plan) { show_plan(context, plan); };
  caller.before_start = [&]() -> Status {
    auto opened = open_report(context);
    if (!opened) return std::move(opened).error();
    file = *std::move(opened);
    return Done{};
  };
  caller.report = [&](const job::MakeReport& make) {
    say(context, file, make);
    if (const Descriptor& to = from_keeper.report)
      static_cast<void>(write_all(to.get(), output::stored_report(make)));
  };
  if (from_keeper.report && from_keeper.tries)
    caller.keep_tries = [&](const run::EarlierTries& earlier) {
      return run::write_next_try(from_keeper.tries, earlier);
    };
  caller.stored_report = output::stored_report;
  caller.ended = [&](const model::Outcome& outcome, std::chrono::milliseconds wall) {
    after.act(outcome, wall);
  };
  caller.report_no_start = [&](const job::MakeReport& make, const Error& error) {
    if (file.file) write_report(context, file, json_of(context, make));
    fail(context, error);
  };
  return job::perform(spec, machine, caller, inherited);
}

/// Queues a job that the broker cannot start by itself: with ranks, retries, a container or the
/// guard. The queued command is a `berth run`.
Result<int> queue_inside(const Context& context, const model::Request& request,
                         const job::Spec& spec, job::Machine& machine) {
  const job::SupervisionWish& wish = spec.supervision;
  Context inside = context;
  // With --ranks MIN:MAX, the job waits for MIN devices. It then starts with all free devices, up
  // to MAX.
  job::SupervisionWish least = wish;
  if (wish.ranks && wish.ranks->least)
    least.ranks->count = *std::exchange(least.ranks->least, std::nullopt);
  const model::Snapshot snapshot = machine.look(false);
  auto whole = job::request_for_ranks(request, least, snapshot);
  job::set_driver_limits(whole, spec.isolation, snapshot.driver);
  job::set_mig_only(whole, spec.isolation, snapshot);
  const bool ranks_choose_gpus = !request.gpus && whole.gpus.value_or(0) > 0;
  if (ranks_choose_gpus && wish.ranks && wish.ranks->least)
    whole.gpus_most = wish.ranks->count * wish.ranks->gpus_per_rank.value_or(1);
  inside.arguments.options.erase("--report");
  Variables with_report = spec.variables;
  with_report[run::kReportVariable] = "1";
  return queue_job(inside, whole, with_report, command_in_queue(context.arguments, whole));
}

/// Reads --spill. Whenever the device passes to another job, spilled memory is moved between GPU
/// and host. So the default turns are longer.
Status spill(model::Request& request) {
  constexpr int kLongTurn = 2'000;
  if (!request.memory_bytes)
    return Error{ErrorCode::kInvalidArgument, "E0013",
                 text("spilling needs a memory quota: add {}", "--memory"),
                 "berth run --spill --memory 8GiB -- …"};
  request.spills = true;
  if (!request.turns.slice_milliseconds) request.turns.slice_milliseconds = kLongTurn;
  return Done{};
}

/// Reads --strict: whether limits must be enforced.
Status strictness(const Arguments& arguments, const model::Request& request, job::Spec& spec) {
  spec.strict = arguments.has("--strict");
  if (!spec.strict) return Done{};
  if (spec.isolation == job::Isolation::kNone) return contradiction("--strict", "--isolation none");
  if (!request.has_limits() && spec.isolation != job::Isolation::kMig)
    return Error{ErrorCode::kInvalidArgument, "E0013",
                 text("there is no limit to enforce: add {}", "--memory"),
                 "berth run --strict --memory 8GiB -- …"};
  return Done{};
}

/// Warns if --memory is less than the memory that `berth plan measure` found for this command.
void warn_if_too_small(const Context& context, const model::Request& request) {
  if (!request.memory_bytes || request.spills) return;
  const auto estimate = estimate_for(context.arguments.command);
  if (!estimate || estimate->reserve_bytes <= *request.memory_bytes) return;
  constexpr std::uint64_t kMib = std::uint64_t{1} << 20U;
  note(context,
       text("`berth plan measure` found that this command needs about {}, but --memory is {}",
            show_bytes(estimate->reserve_bytes), show_bytes(*request.memory_bytes)),
       {fmt::format("berth run --memory {}MiB", estimate->reserve_bytes / kMib + 1)});
}

/// Whether the job may get an NVIDIA GPU. If so, the container engine must support NVIDIA GPUs.
bool needs_nvidia(const model::Request& request, job::Machine& machine) {
  if (request.gpus == 0) return false;
  const model::Snapshot snapshot = machine.look(false);
  return !snapshot.host.simulated &&
         std::any_of(snapshot.devices.begin(), snapshot.devices.end(), [](const auto& device) {
           return device.vendor == model::Vendor::kNvidia && device.managed;
         });
}

Result<int> run_or_say_why_not(const Context& context) {
  const Arguments& arguments = context.arguments;
  const bool queued = arguments.has("--queue");
  // A queued job gets only what is sent to the broker. So read what this process inherited only if
  // the job runs here.
  run::Inherited inherited = queued ? run::Inherited{} : run::inherit();
  const FromKeeper from_keeper{take_from_keeper(run::kReportVariable, inherited),
                               take_from_keeper(run::kTriesVariable, inherited)};
  if (arguments.command.empty() || arguments.command.front().empty()) {
    return Error{ErrorCode::kInvalidArgument, "E0516", text("there is no command to run"),
                 "berth run -- python train.py"};
  }
  job::Spec spec;
  // The broker starts a queued job outside of the current job, so drop the variables that Berth set
  // for the current one.
  spec.variables = queued ? policy::without_berths(whole_environment()) : whole_environment();
  auto request = parse_request(arguments, spec.variables);
  if (!request) return request.error();
  if (arguments.has("--spill"))
    if (auto can = spill(*request); !can) return std::move(can).error();
  if (const auto word = arguments.value("--isolation")) {
    const auto isolation = job::isolation_of(*word);
    if (!isolation) return isolation.error();
    spec.isolation = *isolation;
  }
  if (auto strict = strictness(arguments, *request, spec); !strict)
    return std::move(strict).error();
  if (auto checked = inventory::Sources::check_environment(); !checked)
    return std::move(checked).error();
  auto wish = parse_supervision(arguments);
  if (!wish) return std::move(wish).error();
  spec.supervision = *std::move(wish);
  const job::Note tell = [&](const std::string& sentence, const std::vector<std::string>& hints) {
    note(context, sentence, hints);
  };
  auto container = parse_container(arguments);
  if (!container) return std::move(container).error();
  spec.container = *std::move(container);
  // In these engines, each rank would be a container with its own network, processes and shared
  // memory, so ranks could not communicate. Apptainer shares the machine's network and processes.
  if (spec.container && spec.supervision.ranks &&
      spec.container->engine != engines::ContainerEngine::kApptainer)
    return Error{ErrorCode::kInvalidArgument, "E1104",
                 text("--ranks supports only apptainer containers: start the ranks inside the "
                      "container instead"),
                 "berth run --gpus 2 --retries 2 --container IMAGE -- "
                 "torchrun --nproc-per-node 2 train.py"};
  job::ThisMachine machine(arguments.has("--devices"), tell);
  warn_if_too_small(context, *request);
  const bool is_guarded = request->has_limits() || spec.isolation == job::Isolation::kMig;
  if (queued && (spec.supervision.is_needed() || spec.container || is_guarded))
    return queue_inside(context, *request, spec, machine);
  if (queued) return queue_job(context, *request, spec.variables, arguments.command);
  if (auto sound = check_not_queued(arguments); !sound) return std::move(sound).error();
  auto described = job_of(arguments, *request);
  if (!described) return std::move(described).error();
  spec.job = *std::move(described);
  spec.environment = environment_options(arguments);
  spec.may_wait = !arguments.has("--no-wait");
  spec.dry_run = arguments.has("--dry-run");
  if (spec.container && !spec.dry_run)
    if (auto ready = prepare_container(context, *spec.container, needs_nvidia(*request, machine));
        !ready)
      return std::move(ready).error();
  spec.quiet = context.json;
  AfterRun after{std::exchange(spec.job.on_end, ""), std::exchange(spec.job.notify, false),
                 spec.job.name.empty() ? output::join(arguments.command, " ") : spec.job.name};
  spec.earlier = run::read_earlier_tries(from_keeper.tries);
  return perform(context, spec, machine, tell, inherited, after, from_keeper);
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
  // An interactive shell needs devices but no report, so turn the report off by default.
  if (!context.arguments.has("--report")) shell.arguments.options["--report"] = {"none"};
  return run_run(shell);
}

}  // namespace berth::cli
