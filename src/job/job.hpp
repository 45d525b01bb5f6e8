// One job from request to report. The command line parses its words into a Spec and calls
// perform(); the Caller decides what the user sees.
#pragma once

#include <functional>

#include "base/result.hpp"
#include "job/machine.hpp"
#include "job/plan.hpp"
#include "job/spec.hpp"
#include "model/run.hpp"
#include "run/launch.hpp"

namespace berth::job {

/// Makes the report, in the language that is set when it is called. May be called several times.
using MakeReport = std::function<model::Report()>;

/// What the caller does at each step.
struct Caller {
  Note note;
  /// Shows the plan. A dry run ends after this call.
  std::function<void(const Plan&)> show_plan;
  /// Called when the plan is made and nothing has started yet. If this function fails, the job ends
  /// here.
  std::function<Status()> before_start;
  /// Called when the job has ended.
  std::function<void(const MakeReport&)> report;
  /// Returns the report in the form that the broker stores.
  std::function<std::string(const MakeReport&)> stored_report;
  /// Called only inside a queued job: stores its tries for the next try, which runs in another
  /// lease. Returns false if that fails.
  std::function<bool(const run::EarlierTries&)> keep_tries;
  /// Called when the job has ended, after report().
  std::function<void(const model::Outcome&, std::chrono::milliseconds wall)> ended;
  /// Called instead of report() if the command could not be started, or if its keeper process
  /// (which supervises the command) was lost.
  std::function<void(const MakeReport&, const Error&)> report_no_start;
};

/// request → plan → lease → launch → watch → outcome → report. Returns the exit code of the command
/// or, if it could not start, of that failure. Before the start, it fails with the errors of
/// make_plan(), Caller::before_start and Guard::begin(). If Ctrl-C ended the command, this process
/// dies of SIGINT too.
[[nodiscard]] Result<int> perform(const Spec& spec, Machine& machine, const Caller& caller,
                                  run::Inherited& inherited);

/// The exit code of `berth run` for an error. Most errors give 125, because a command uses small
/// exit codes itself. Errors with codes of their own: wrong usage, a command that cannot start, and
/// a refusal without waiting.
[[nodiscard]] int exit_code_of(const Error& error, bool may_wait);

}  // namespace berth::job
