// A queued job has no front: its keeper stands alone, in a session of its own, reads what to start
// from the job's folder, sends the output to its log, and leaves the exit status there. It outlives
// the broker, which asks the folder afterwards.
//
// FOLDER/launch  what to start (launch_file.hpp)   FOLDER/log     the output, its user's
// FOLDER/keeper  who keeps it: a symbolic link to "PID START_TICKS", made in one step with what it
//                says, by one alone                FOLDER/status  how it ended (job_folder.hpp)
//
// The folder belongs to the broker's user, and so does the keeper, also where that is root: only
// the workload becomes the job's user, who can change nothing here but the log.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/job.hpp"
#include "run/launch_file.hpp"

namespace berth::run {

/// Who keeps the job; nullopt: nobody began to.
[[nodiscard]] std::optional<model::ProcessId> keeper_of(const std::string& job_folder);
/// How it ended; nullopt: it did not, or nobody could write it down.
[[nodiscard]] std::optional<model::Outcome> outcome_of(const std::string& job_folder);

/// The rest of the life of a fresh process. Of several for one folder only the first keeps the job.
[[noreturn]] void keep_queued(const Start& start);

}  // namespace berth::run
