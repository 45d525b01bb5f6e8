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
/// Sentences about processes that the command left running, and how to keep them. Empty if there
/// were none.
[[nodiscard]] std::vector<std::string> left_behind_sentences(const model::Report& report);
/// Sentences about how a job with ranks failed: the rank that failed first, and its last words.
/// Empty if no rank failed.
[[nodiscard]] std::vector<std::string> failure_sentences(const model::Report& report);
/// One line.
[[nodiscard]] std::string report_json(const model::Report& report);

/// The report without its first line, and not indented: where it ran, and what was found.
[[nodiscard]] std::string finding_text(const model::Report& report, const Terminal& terminal);
/// {"class", "exit_code", "signal"}, as in the document.
[[nodiscard]] std::string outcome_json(const model::Outcome& outcome);
/// The report of a queued job, as it is kept: {"schema", "report": the document, "text":
/// finding_text, in English and Chinese}. `make` is called in each language.
[[nodiscard]] std::string stored_report(const std::function<model::Report()>& make);
/// `stored` if it is such a document, else "". A job's user may have written it. `outcome`: how the
/// job ended, by the broker, which alone knows of time limits.
[[nodiscard]] std::string sound_report(const std::string& stored,
                                       const std::optional<model::Outcome>& outcome = {});
/// Its text, in the language that is set; "" if it has none.
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
