#include "job/job.hpp"

#include "base/error_words.hpp"
#include "base/exit_code.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "job/container.hpp"
#include "job/device_totals.hpp"
#include "job/next_try.hpp"
#include "job/prices.hpp"
#include "job/queued_try.hpp"
#include "job/start.hpp"
#include "model/cpu_list.hpp"
#include "model/tries.hpp"
#include "policy/environment.hpp"
#include "run/front.hpp"
#include "run/other_launcher.hpp"
#include "run/queued_watch.hpp"
#include "run/retry.hpp"
#include "run/supervisor.hpp"
#include "run/tries_record.hpp"
#include "system/shutdown.hpp"

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

/// What the earlier starts of a job add to its report.
struct Totals {
  milliseconds wall{0}, cpu{0};
  std::uint64_t peak_rss_bytes = 0;
  std::vector<model::LeftBehind> left_behind;
  DeviceTotals devices;

  explicit Totals(const std::optional<run::EarlierTries>& had) {
    if (!had) return;
    wall = had->wall;
    cpu = had->cpu;
    peak_rss_bytes = had->peak_rss_bytes;
    devices = DeviceTotals(had->devices, had->device_wall, had->held_seconds);
  }
  void add(const run::Ending& ending, const std::vector<model::DeviceUse>& used) {
    devices.add(used, ending.wall);
    wall += ending.wall;
    cpu += ending.cpu;
    peak_rss_bytes = std::max(peak_rss_bytes, ending.peak_rss_bytes);
    left_behind.insert(left_behind.end(), ending.left_behind.begin(), ending.left_behind.end());
  }
};

void add_ending(model::Report& report, const run::Ending& ending, const Totals& earlier) {
  report.outcome = ending.outcome;
  report.wall = earlier.wall + ending.wall;
  report.cpu = earlier.cpu + ending.cpu;
  report.peak_rss_bytes = std::max(earlier.peak_rss_bytes, ending.peak_rss_bytes);
  report.left_behind = earlier.left_behind;
  report.left_behind.insert(report.left_behind.end(), ending.left_behind.begin(),
                            ending.left_behind.end());
  report.checkpoint = ending.checkpoint;
  if (ending.left > 0)
    report.notes.push_back(text_n(
        "{} process of the job could not be killed: it is another user's, or blocked in the kernel",
        "{} processes of the job could not be killed: they are another user's, or blocked in the "
        "kernel",
        ending.left, ending.left));
  if (ending.pin_error != 0)
    report.notes.push_back(
        text("the CPU affinity could not be set ({}); the job could run on all allowed cores",
             error_words(ending.pin_error)));
}

/// Adds the job's cost to the report, if prices are set on this machine. `held_seconds`: the wall
/// time of each start, multiplied by the number of its devices.
void add_cost(model::Report& report, double held_seconds) {
  if (report.devices.empty()) return;
  auto prices = read_prices();
  if (!prices) {
    report.notes.push_back(text("the cost is not known: {}", prices.error().message));
    return;
  }
  std::optional<double> joules = 0;
  for (const model::DeviceUse& use : report.devices)
    joules = joules && use.energy_millijoules
                 ? std::optional(*joules + static_cast<double>(*use.energy_millijoules) / 1000)
                 : std::nullopt;
  report.cost = model::cost_of(held_seconds, joules, *prices);
  report.prices = *std::move(prices);
}

/// If the broker ended the job, the outcome that the broker reports counts, not the exit code of
/// the command.
void settle_outcome(const Plan& plan, run::Ending& ending) {
  const auto told = plan.lease ? plan.lease->outcome_if_told_to_end() : std::nullopt;
  if (!told) return;
  ending.outcome = *told;
  ending.interrupted = false;
}

/// Ends the lease. Returns how often the kernel denied the job access to devices that are not in
/// the lease.
std::uint64_t end_lease(Plan& plan, const Result<run::Ending>& ending) {
  if (!plan.lease) return 0;
  if (!ending) return plan.lease->end(outcome_of(ending.error()));
  return plan.lease->end(ending->outcome, {ending->cpu, ending->peak_rss_bytes}, ending->stuck);
}

// The following functions start the job again, after a failure that may need other devices or
// variables.

struct LastStart {
  Machine& machine;
  const Caller& caller;
  const run::Inherited& inherited;
  Start& start;
};

milliseconds since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - then);
}

/// How much of the job's time limit is left. The next lease lasts no longer than that.
std::optional<milliseconds> time_left(const std::optional<milliseconds>& limit, milliseconds used) {
  if (!limit) return std::nullopt;
  return std::max(milliseconds(1), *limit - used);
}

/// Whether the job can give back its lease and take a lease of other devices.
bool may_move(const Spec& spec, const Plan& plan) {
  return (!plan.lease || plan.lease->is_ours()) && !plan.engine && !plan.turned_after &&
         !plan.placement.devices.empty() && spec.job.request.devices.empty();
}

/// Waits before the next try. If other programs hold memory that the try needs, waits until they
/// have released it. Returns the signal that asked the job to end, or 0.
int pause_before(NextTry& next, const FailedTry& failed, const run::Supervision& tries,
                 const LastStart& last) {
  using Clock = std::chrono::steady_clock;
  const auto number = static_cast<int>(tries.earlier.all.size()) + 1;
  const auto pause = run::pause_before_try(number, tries.backoff_least, tries.backoff_most);
  last.caller.note(text("try {} of {} ended: {}; the next one starts in {}", number - 1,
                        tries.most_tries, model::name(failed.kind), show_duration(pause)),
                   {});
  if (const int signal = run::wait_unless_told_to_end(last.inherited, pause)) return signal;
  if (next.change != model::TryChange::kWaitedForMemory) return 0;
  auto now = last.machine.look(false);
  const std::uint64_t bytes = memory_of_others(failed.devices, now);
  if (bytes == 0) return 0;
  const auto most = tries.backoff_most;
  last.caller.note(
      text("other programs hold {} of the memory of GPU {}: the job waits for it, for at most {}",
           show_bytes(bytes), model::show_cpu_list(failed.devices), show_duration(most)),
      {});
  for (const auto until = Clock::now() + most; Clock::now() < until;) {
    if (const int signal = run::wait_unless_told_to_end(last.inherited, milliseconds(500)))
      return signal;
    now = last.machine.look(false);
    if (memory_of_others(failed.devices, now) == 0) return 0;
  }
  next.change = model::TryChange::kSmallerBatch;
  return 0;
}

/// Gives back the lease, and plans the job on other devices. If there are none, the job gets the
/// same devices again.
Status move(Spec& spec, Plan& plan, NextTry& next, const LastStart& last) {
  last.caller.note(text("the job gives up GPU {}", model::show_cpu_list(plan.placement.devices)),
                   {});
  static_cast<void>(end_lease(plan, last.start.ending));
  plan.lease.reset();
  Spec moved = spec;
  moved.job.request.without.insert(moved.job.request.without.end(), next.without.begin(),
                                   next.without.end());
  auto other = make_plan(moved, last.machine, last.caller.note);
  if (other) {
    spec = std::move(moved);
  } else {
    last.caller.note(text("no other device is available: {}", other.error().message), {});
    next.change = model::TryChange::kNothing;
    other = make_plan(spec, last.machine, last.caller.note);
  }
  if (!other) return std::move(other).error();
  plan = *std::move(other);
  return Done{};
}

/// What the machine and the guard show about the last try. nullopt if there is no further try, or
/// if the supervisor decides how to continue.
std::optional<FailedTry> look_at_failure(const Spec& spec, const Plan& plan, const LastStart& last,
                                         const model::Snapshot& after, model::Tries& tries) {
  const run::Supervision& how = *plan.supervision;
  model::Try& failed = tries.all.back();
  const std::uint64_t refusals = last.start.guard_refusals();
  auto faulty = correct_class(failed, plan.snapshot, after, plan.placement.devices, refusals);
  run::write_record(how.record, tries);
  if (!how.leaves_changes_to_front || !run::may_need_changes(failed.kind) ||
      tries.all.size() >= static_cast<std::size_t>(how.most_tries))
    return std::nullopt;
  FailedTry why = failed_try(failed, plan.placement.devices, refusals);
  if (!faulty.empty()) why.devices = std::move(faulty);
  why.may_move = may_move(spec, plan);
  return why;
}

/// Corrects the class of the last try if the broker or a shutdown ended the job. The exit code does
/// not show that, because a job that saved its state may have ended with any exit code.
void say_who_ended(Plan& plan, model::Tries& tries) {
  constexpr milliseconds kAtMost(500);
  model::Try& last = tries.all.back();
  if (plan.lease && !plan.lease->is_ours() && plan.lease->is_preempted(kAtMost)) {
    last.kind = model::TryClass::kPreempted;
    last.evidence = "the broker: another job needs its devices";
  } else if (last.kind == model::TryClass::kStopped &&
             system::is_machine_stopping(std::chrono::seconds(2))) {
    last.kind = model::TryClass::kNodeShutdown;
    last.evidence = "systemd: stopping";
  } else {
    return;
  }
  run::write_record(plan.supervision->record, tries);
}

/// Decides whether the job starts once more with other devices or variables, and prepares that.
Result<bool> prepare_next_start(Spec& spec, Plan& plan, const LastStart& last, Totals& earlier) {
  const auto begun = std::chrono::steady_clock::now();
  run::Ending& ending = *last.start.ending;
  if (!plan.supervision || ending.interrupted) return false;
  model::Tries tries = run::read_record(plan.supervision->record);
  if (tries.all.empty()) return false;
  say_who_ended(plan, tries);
  const model::TryClass kind = tries.all.back().kind;
  if (ending.outcome.exit_code == 0 || kind == model::TryClass::kPreempted ||
      kind == model::TryClass::kStopped || kind == model::TryClass::kNodeShutdown)
    return false;
  const model::Snapshot after = last.machine.look(true);
  auto why = look_at_failure(spec, plan, last, after, tries);
  if (!why) return false;
  const auto used = last.start.devices_used(ending, plan.snapshot);
  const auto read = last.machine.ledger();
  const model::Ledger ledger = read ? *read : model::Ledger();
  const bool is_queued = may_go_back(spec, plan, last.caller);
  why->may_move = why->may_move || is_queued;
  NextTry next = next_try(*why, is_queued ? wish_in_queue(plan) : plan.request, after, ledger);
  const double scale = tries.all.back().batch_scale;
  plan.supervision->earlier = std::move(tries);
  if (is_queued && (next.change == model::TryChange::kOtherDevice ||
                    next.change == model::TryChange::kWaitedForMemory)) {
    Totals all = earlier;
    all.add(ending, used);
    if (go_back(plan, next, {all.wall, all.cpu, all.peak_rss_bytes, all.devices}, last.caller))
      return false;
    why->may_move = false;
    next = next_try(*why, plan.request, after, ledger);
  }
  if (const int signal = pause_before(next, *why, *plan.supervision, last)) {
    ending.outcome = {model::OutcomeClass::kSignal, 128 + signal, signal};
    ending.interrupted = signal == SIGINT;
    return false;
  }
  run::unblock_signals(last.inherited);
  const auto earlier_tries = plan.supervision->earlier;
  earlier.add(ending, used);
  if (next.change == model::TryChange::kOtherDevice) {
    spec.job.time_limit = time_left(spec.job.time_limit, ending.wall + since(begun));
    if (auto moved = move(spec, plan, next, last); !moved) return std::move(moved).error();
  }
  const auto waited = since(begun);
  earlier.wall += waited;
  run::Supervision& again = *plan.supervision;
  again.earlier = earlier_tries;
  again.change = next.change;
  again.batch_scale = next.change == model::TryChange::kSmallerBatch ? smaller_scale(scale) : scale;
  again.waited = waited;
  if (again.batch_scale < 1) spec.variables[kBatchScale] = show_scale(again.batch_scale);
  if (next.change == model::TryChange::kSmallerBatch)
    last.caller.note(text("{} is set, so berth.fit_batch uses a smaller batch",
                          fmt::format("{}={}", kBatchScale, show_scale(again.batch_scale))),
                     {});
  return true;
}

}  // namespace

int exit_code_of(const Error& error, bool may_wait) {
  if (error.id == "E0510") return kNotFound;
  if (error.id == "E0511") return kNotExecutable;
  if (error.id == "E0412" && !may_wait) return kRefused;
  return error.code == ErrorCode::kInvalidArgument ? kUsage : kOurFailure;
}

Result<int> perform(const Spec& asked, Machine& machine, const Caller& caller,
                    run::Inherited& inherited) {
  Spec spec = asked;
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
  if (const auto launcher = run::other_launcher(spec.job.command))
    caller.note(run::needless_sentence(*launcher), {});

  // Launch and watch, until none of the job's processes is left. A retry with other devices or
  // variables is another launch.
  Totals earlier(spec.earlier);
  continue_tries(spec, *plan);
  auto start = start_once(spec, *plan, caller, inherited);
  while (start && (*start)->ending) {
    auto again = prepare_next_start(spec, *plan, {machine, caller, inherited, **start}, earlier);
    if (!again) return std::move(again).error();
    if (!*again) break;
    start = start_once(spec, *plan, caller, inherited);
  }
  if (!start) return std::move(start).error();
  auto& ending = (*start)->ending;

  // Outcome: end the lease and report the outcome to the broker.
  const std::uint64_t refusals = end_lease(*plan, ending);
  const model::Report& begun = (*start)->begun;
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
    add_ending(report, *ending, earlier);
    if (plan->supervision)
      report.tries = std::make_shared<model::Tries>(run::read_record(plan->supervision->record));
    (*start)->fill(report, *plan, refusals);
    DeviceTotals devices = earlier.devices;
    devices.add(report.devices, ending->wall);
    report.devices = devices.devices();
    add_cost(report, devices.held_seconds());
    return report;
  };
  caller.report(report_of_run);
  // A job inside another job stores no report, because the outer job stores one.
  if (plan->lease && plan->lease->is_ours() && ending->wall >= run::kWatchFrom)
    plan->lease->keep_report(caller.stored_report(report_of_run), kMostToKeepReport);
  if (caller.ended) caller.ended(ending->outcome, earlier.wall + ending->wall);
  if (ending->interrupted) run::die_of_interrupt();
  return ending->outcome.exit_code;
}

}  // namespace berth::job
