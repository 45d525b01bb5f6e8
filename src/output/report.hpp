// The report that `berth run` prints after the job, or the plan with --dry-run; for people and as
// JSON (docs/json.md).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// The report for people. `verbose` adds the variables that were set, unset or kept.
[[nodiscard]] std::string report_text(const model::Report& report, const Terminal& terminal,
                                      bool verbose = false);
/// Sentences about processes that the command left running: what happened to them, and how to keep
/// them. Empty if there were none.
[[nodiscard]] std::vector<std::string> left_behind_sentences(const model::Report& report);
/// Sentences about the failure of a job with ranks: which rank failed first, and the last lines of
/// its output. Empty if no rank failed.
[[nodiscard]] std::vector<std::string> failure_sentences(const model::Report& report);
/// The report as JSON, on one line.
[[nodiscard]] std::string report_json(const model::Report& report);

/// The report without its first line and without indentation: where the job ran, and what was
/// found.
[[nodiscard]] std::string finding_text(const model::Report& report, const Terminal& terminal);
/// The outcome as in the report: {"class", "exit_code", "signal"}.
[[nodiscard]] std::string outcome_json(const model::Outcome& outcome);
/// The report of a queued job as it is stored: {"schema", "report": the document, "text":
/// finding_text() in English and Chinese}. Calls `make` once for each language.
[[nodiscard]] std::string stored_report(const std::function<model::Report()>& make);
/// Returns `stored` if it is a valid stored report, or "" if it is not. The job's user can write
/// the file, so it is not trusted. `outcome` replaces the stored outcome, because only the broker
/// knows whether a time limit ended the job.
[[nodiscard]] std::string sound_report(const std::string& stored,
                                       const std::optional<model::Outcome>& outcome = {});
/// The text of a stored report in the current language; "" if it has none.
[[nodiscard]] std::string stored_report_text(const std::string& stored);

/// The output of --dry-run: the variables that would be set, and the command that would start.
[[nodiscard]] std::string plan_text(const std::vector<std::string>& command,
                                    const model::Environment& environment,
                                    const model::Placement& placement,
                                    const model::Snapshot& snapshot, const Terminal& terminal);
/// The output of --dry-run as JSON on one line: that of environment_json(), with the key "command".
[[nodiscard]] std::string plan_json(const std::vector<std::string>& command,
                                    const model::Environment& environment,
                                    const model::Placement& placement,
                                    const model::Snapshot& snapshot);

}  // namespace berth::output
