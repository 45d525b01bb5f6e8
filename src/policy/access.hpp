// Decides which device nodes a job with a lease on these units may open. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/access.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

/// Returns the rules for a job. Of all GPU nodes, it may open only those of its own units and its
/// vendors' control nodes. No rule concerns other nodes, or devices that no job can get (the
/// graphics of a server's management controller). nullopt if a unit's nodes are unknown. Then only
/// variables restrict the job, because a rule could block its own device.
[[nodiscard]] std::optional<std::vector<model::NodeRule>> node_rules(
    const model::Snapshot& snapshot, const model::GpuNodes& nodes,
    const std::vector<std::string>& units);

}  // namespace berth::policy
