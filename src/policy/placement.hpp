// place(): chooses the devices for a request. Pure: the same request and snapshot always give the
// same result, in a test, in `run` and in the broker. The order of lists in the snapshot does not
// matter. docs/environment.md explains the rules.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/ledger.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

/// Chooses devices. Without options: the best free device; E0412 if all are busy; the CPU if no
/// device can be used. --gpus N: N unused devices. --memory SIZE: a device with that much free
/// memory, which other jobs may share; unused devices come first, by free memory, then the least
/// used ones. --devices: exactly these, even if they are in use. Fails with kNoDevice (E0411: no
/// device, or too few), kRefused (E0412: none is free enough, with the jobs that hold them; E0416:
/// the environment hides too many; E0417: too few cores; E0419: the named device cannot be used),
/// kInvalidArgument (E0413, E0414, E0415: the errors of model::select_devices; E0418: a device that
/// no job can get). If one lease has a whole unit, no second job gets it, even if it names the
/// unit.
[[nodiscard]] Result<model::Placement> place(const model::Request& request,
                                             const model::Snapshot& snapshot,
                                             const model::Ledger& ledger = {});
/// Makes the placement of a job that has a lease on these units (policy::unit_id; empty: the CPU)
/// and on these CPUs ("": no CPUs). Fails with the errors of place() if a unit has disappeared.
[[nodiscard]] Result<model::Placement> place_leased(const model::Request& request,
                                                    const std::vector<std::string>& units,
                                                    const std::string& affinity,
                                                    const model::Snapshot& snapshot);
/// A device is busy if a process computes on it, or if its processes could not be read. It is also
/// busy if graphics or unattributed memory take at least 1 GiB and 10 % of its memory. A desktop
/// needs less than that. What jobs in the ledger use does not count.
[[nodiscard]] bool busy(const model::Device& device, const model::Snapshot& snapshot,
                        const model::Ledger& ledger = {});

}  // namespace berth::policy
