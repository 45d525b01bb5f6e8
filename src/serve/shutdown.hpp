// When the machine shuts down, the broker lets jobs with --checkpoint-signal save before it ends.
// The machine sends SIGTERM to the remaining processes only after its services have ended.
#pragma once

#include <cstddef>
#include <functional>
#include <map>

#include "model/job.hpp"

namespace berth::serve {

/// Calls `tell` for each of these running jobs; `tell` tells the job's keeper to end the job. Waits
/// until the jobs have ended, but no longer than the longest time that a job needs to save. Returns
/// how many of their keepers have not ended.
std::size_t let_jobs_save(const std::map<model::JobId, model::Job>& jobs,
                          const std::function<void(model::JobId)>& tell);

}  // namespace berth::serve
