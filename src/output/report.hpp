// What `berth run` prints after the job, and before it with --dry-run: for people and as JSON
// (docs/json.md).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// `verbose` also lists the variables that were set, unset and kept.
[[nodiscard]] std::string report_text(const model::Report& report, const Terminal& terminal,
                                      bool verbose = false);
/// Sentences about processes that the command left running, and how to keep them running. Empty if
/// there were none.
[[nodiscard]] std::vector<std::string> left_behind_sentences(const model::Report& report);
/// Sentences about how a job with ranks failed: which rank failed first, and the last lines that it
/// printed. Empty if no rank failed.
[[nodiscard]] std::vector<std::string> failure_sentences(const model::Report& report);
/// The report as JSON, on one line.
[[nodiscard]] std::string report_json(const model::Report& report);

/// The report without its first line and without indentation: where the job ran, and what was
/// found.
[[nodiscard]] std::string finding_text(const model::Report& report, const Terminal& terminal);
/// The object {"class", "exit_code", "signal"}, as in the report's document.
[[nodiscard]] std::string outcome_json(const model::Outcome& outcome);
/// The report of a queued job in the form in which it is stored: {"schema", "report": the document,
/// "text": finding_text() in English and Chinese}. `make` is called once for each language.
[[nodiscard]] std::string stored_report(const std::function<model::Report()>& make);
/// Returns `stored` if it is a valid stored report, else "". It is not trusted, because the job's
/// user can write it. `outcome` replaces the stored outcome: it is from the broker, which knows
/// whether a time limit ended the job.
[[nodiscard]] std::string sound_report(const std::string& stored,
                                       const std::optional<model::Outcome>& outcome = {});
/// The text of a stored report in the current language; "" if there is none.
[[nodiscard]] std::string stored_report_text(const std::string& stored);

/// --dry-run: what would be set and started.
[[nodiscard]] std::string plan_text(const std::vector<std::string>& command,
                                    const model::Environment& environment,
                                    const model::Placement& placement,
                                    const model::Snapshot& snapshot, const Terminal& terminal);
/// Like environment_json(), with the key "command" added. One line.
[[nodiscard]] std::string plan_json(const std::vector<std::string>& command,
                                    const model::Environment& environment,
                                    const model::Placement& placement,
                                    const model::Snapshot& snapshot);

}  // namespace berth::output
