// Chooses a job's CPUs and number of threads, after its devices are chosen. Pure.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "model/ledger.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

/// Sets cpus, threads and their reasons. With a device, chooses CPUs near it that this process may
/// use: as many as --cpus requests, by default all. Devices of one NUMA node get different CPUs.
/// Without a device, --cpus pins the job only if there is a ledger: without one, two jobs could be
/// pinned to the same cores. No core is given to two jobs. Fails with kRefused (E0417: --cpus is
/// above the affinity or quota; E0412: jobs have too many cores).
[[nodiscard]] Status set_processors(model::Placement& placement, const model::Request& request,
                                    const model::Snapshot& snapshot, const model::Ledger& ledger);

}  // namespace berth::policy
