// --notify: tells a job's user that it has ended.
#pragma once

#include "model/job.hpp"

namespace berth::serve {

/// Writes a line to the terminal where the job was queued, and to each terminal where the job's
/// user is logged in.
void tell_of_end(const model::Job& job);

}  // namespace berth::serve
