// What `berth run` says after the job, and what it would do before it: for people, and as JSON
// (docs/json.md).
#pragma once

#include <string>
#include <vector>

#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "output/terminal.hpp"

namespace berth::output {

[[nodiscard]] std::string report_text(const model::Report& report, const Terminal& terminal);
/// One line.
[[nodiscard]] std::string report_json(const model::Report& report);

/// --dry-run: what would be set and done.
[[nodiscard]] std::string plan_text(const std::vector<std::string>& command,
                                    const model::Environment& environment,
                                    const model::Placement& placement,
                                    const model::Snapshot& snapshot, const Terminal& terminal);
/// As environment_json, with "command". One line.
[[nodiscard]] std::string plan_json(const std::vector<std::string>& command,
                                    const model::Environment& environment,
                                    const model::Placement& placement,
                                    const model::Snapshot& snapshot);

}  // namespace berth::output
