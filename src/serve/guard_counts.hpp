// Adds the counters of the guard (the library that is preloaded into jobs) to the processes of a
// snapshot.
#pragma once

#include <cstdint>
#include <optional>

#include "guard/live.hpp"
#include "model/snapshot.hpp"

namespace berth::serve {

/// Adds a job's counters to its processes and its lease. With `uid`, only to processes of this
/// user.
void add_guard_counts(model::Snapshot& snapshot, const guard::LiveJob& job,
                      std::optional<std::uint32_t> uid = {});

/// Adds the device time of guarded jobs to processes that have a job. Root's broker reads the
/// counters of each user with that user's rights. A user can change the counters of their own jobs,
/// so the counters are applied only to processes of that user.
void add_guard_times(model::Snapshot& snapshot);

}  // namespace berth::serve
