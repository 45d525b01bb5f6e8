// From the words of a request and the readings of a machine to the numbers that the queue reckons
// with. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/ledger.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "policy/pool.hpp"

namespace berth::policy {

/// Ids of what can be leased (unit_id), in the order of candidates_of(); `known` keep their places,
/// whether they are still there or not.
[[nodiscard]] std::vector<std::string> units_of(const model::Snapshot& snapshot,
                                                std::vector<std::string> known = {});

/// The machine without what jobs have: what strangers use of it, and what `drained` (ids) or its
/// health takes away; `lent` other brokers gave away. Positions are those of `units`.
[[nodiscard]] Pool pool_of(const model::Snapshot& snapshot, const model::Ledger& ledger,
                           const std::vector<std::string>& units,
                           const std::vector<std::string>& drained = {},
                           const std::vector<std::string>& lent = {});

/// What the request must get at once. `allowed` are the units that it may choose from: those that
/// are named, visible, and of the vendor that has most of them. Fails as place() does where no
/// waiting would help: E0411, E0413 to E0420.
[[nodiscard]] Result<Demand> demand_of(const model::Request& request,
                                       const model::Snapshot& snapshot,
                                       const std::vector<std::string>& units);

/// The same on the CPU alone.
[[nodiscard]] model::Request on_cpu(model::Request request);

}  // namespace berth::policy
