// place(): which devices a request gets. Pure: the same request and snapshot give the same answer,
// in a test, in `run` and later in the broker; the order of the lists in the snapshot does not
// matter. docs/environment.md tells the rules to people.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/ledger.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

/// Nothing asked for: the best free device, else the one with the most free memory, else the CPU.
/// --gpus N: N that nobody computes on.
/// --memory SIZE: that much free on a device that others may use, the tightest fit. --devices:
/// exactly those, in use or not. Fails with kNoDevice (E0411: none here, or fewer than asked for),
/// kRefused (E0412: none free enough; says who holds them; E0416: the environment hides too many;
/// E0417: fewer cores; E0419: the named one cannot be used), kInvalidArgument (E0413, E0414, E0415:
/// as model::select_devices; E0418: not a device that can be given to a job). What the ledger has
/// given away is never given again, named or not.
[[nodiscard]] Result<model::Placement> place(const model::Request& request,
                                             const model::Snapshot& snapshot,
                                             const model::Ledger& ledger = {});
/// Where a job is that has a lease of these units (policy::unit_id) and, unless "", of these
/// processors. Fails as place(), where one of them has gone meanwhile.
[[nodiscard]] Result<model::Placement> place_leased(const model::Request& request,
                                                    const std::vector<std::string>& units,
                                                    const std::string& affinity,
                                                    const model::Snapshot& snapshot);
/// A device is busy when a compute process uses it, when graphics or memory nobody accounts for
/// take max(1 GiB, 10 % of its memory). Less than that, as a desktop needs, does not make it busy.
/// What jobs of the ledger do there is not counted.
[[nodiscard]] bool busy(const model::Device& device, const model::Snapshot& snapshot,
                        const model::Ledger& ledger = {});

}  // namespace berth::policy
