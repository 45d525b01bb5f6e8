// Which processors and how many threads a job gets, once its devices are chosen. Pure.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "model/ledger.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

/// Sets cpus, threads and their reasons. Beside a device: the processors near it that this process
/// may use; with --cpus that many of them, other ones for every device of the same node. Without a
/// device, --cpus pins where a ledger is kept, which gives no core twice: else two jobs would be
/// pinned to the same ones. Processors that jobs have are nobody else's. Fails with kRefused
/// (E0417) where --cpus asks for more than affinity and quota leave, E0412 where jobs have too
/// many.
[[nodiscard]] Status set_processors(model::Placement& placement, const model::Request& request,
                                    const model::Snapshot& snapshot, const model::Ledger& ledger);

}  // namespace berth::policy
