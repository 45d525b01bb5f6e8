// Decides which device nodes a job with a lease on these units may open. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/access.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

/// A job may open every node except those of GPUs, plus the nodes of its own units and their
/// vendors' control nodes. Nodes unrelated to GPUs stay as they are, and so do devices that no job
/// can get (the graphics of a server's management controller). nullopt if the nodes of a unit are
/// unknown: a job that cannot open its own device would be worse than one restricted only by
/// variables.
[[nodiscard]] std::optional<std::vector<model::NodeRule>> node_rules(
    const model::Snapshot& snapshot, const model::GpuNodes& nodes,
    const std::vector<std::string>& units);

}  // namespace berth::policy
