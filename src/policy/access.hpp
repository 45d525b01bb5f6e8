// Access: which device nodes a job may open that has a lease on these units. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/access.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

/// All but the GPUs' nodes may be opened; of these, the units' own and the control nodes of their
/// vendors alone. Nothing to do with GPUs, and devices that nobody can be given (the graphics of a
/// board's management), are left as they are. nullopt where a unit's nodes are not known: a job
/// that could not open what it has would be worse than one that is kept by variables.
[[nodiscard]] std::optional<std::vector<model::NodeRule>> node_rules(
    const model::Snapshot& snapshot, const model::GpuNodes& nodes,
    const std::vector<std::string>& units);

}  // namespace berth::policy
