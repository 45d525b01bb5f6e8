// Turns a request and a machine's readings into the numbers that the queue works with. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/ledger.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "policy/pool.hpp"

namespace berth::policy {

/// Ids of all units that can be leased (unit_id), in the order of candidates_of(). Units in `known`
/// keep their positions, even if they no longer exist. The only part of the ledger that counts is
/// the partitions that Berth makes.
[[nodiscard]] std::vector<std::string> units_of(const model::Snapshot& snapshot,
                                                std::vector<std::string> known = {},
                                                const model::Ledger& ledger = {});

/// The machine as if this broker had no leases: what foreign processes use, and which units are
/// unusable because they are in `drained` (ids) or unhealthy. `lent`: units that other brokers have
/// leased to jobs. Positions in the pool are those of `units`.
[[nodiscard]] Pool pool_of(const model::Snapshot& snapshot, const model::Ledger& ledger,
                           const std::vector<std::string>& units,
                           const std::vector<std::string>& drained = {},
                           const std::vector<std::string>& lent = {});

/// What the request needs at the same time. `allowed`: the units that are visible, and named if the
/// request names units. If the request needs several devices, all are of the vendor that has most
/// of them. Fails as place() does if waiting cannot help: E0411, E0413 to E0420. The only part of
/// the ledger that counts is the partitions that Berth makes.
[[nodiscard]] Result<Demand> demand_of(const model::Request& request,
                                       const model::Snapshot& snapshot,
                                       const std::vector<std::string>& units,
                                       const model::Ledger& ledger = {});

/// The same request, but only for the CPU.
[[nodiscard]] model::Request on_cpu(model::Request request);

}  // namespace berth::policy
