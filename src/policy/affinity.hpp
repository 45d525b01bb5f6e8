// Which processors and how many threads a job gets, once its devices are chosen. Pure.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

/// Sets cpus, threads and their reasons. Beside a device: the processors near it that this process
/// may use; with --cpus that many of them, other ones for every device of the same node. Without a
/// device nothing is pinned: until there are leases two jobs would be pinned to the same cores.
/// Fails with kRefused (E0417) where --cpus asks for more than affinity and quota leave.
[[nodiscard]] Status set_processors(model::Placement& placement, const model::Request& request,
                                    const model::Snapshot& snapshot);

}  // namespace berth::policy
