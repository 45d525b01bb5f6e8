// Converts a request, and the state of a machine, into the numbers that the queue works with. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/ledger.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "policy/pool.hpp"

namespace berth::policy {

/// The ids (unit_id) of all devices and partitions that can be leased, in the order of
/// candidates_of(). Ids in `known` keep their positions, even if they no longer exist. Of the
/// ledger, only the partitions that Berth makes matter.
[[nodiscard]] std::vector<std::string> units_of(const model::Snapshot& snapshot,
                                                std::vector<std::string> known = {},
                                                const model::Ledger& ledger = {});

/// The machine without the leases of this broker: what foreign processes use, and which units are
/// unusable because they are unhealthy or in `drained` (ids). `lent`: units that other brokers have
/// leased to jobs. `units` gives the positions in the pool.
[[nodiscard]] Pool pool_of(const model::Snapshot& snapshot, const model::Ledger& ledger,
                           const std::vector<std::string>& units,
                           const std::vector<std::string>& drained = {},
                           const std::vector<std::string>& lent = {});

/// What the request needs at the same time. `allowed`: the visible units; if the request names
/// units, only those. If several devices are requested, all are of the vendor with the most such
/// units. Fails with the errors of place() if waiting cannot help: E0411, E0413 to E0420. Of the
/// ledger, only the partitions that Berth makes matter.
[[nodiscard]] Result<Demand> demand_of(const model::Request& request,
                                       const model::Snapshot& snapshot,
                                       const std::vector<std::string>& units,
                                       const model::Ledger& ledger = {});

/// Returns the request, changed to use only the CPU.
[[nodiscard]] model::Request on_cpu(model::Request request);

}  // namespace berth::policy
