// A queued job has no front: its keeper stands alone, in a session of its own, sends the output to
// a log, and leaves the exit status in a file. It outlives the broker, which asks the files
// afterwards. They have one folder for all jobs, because a folder for each costs as much as all the
// rest that a short job writes.
//
// JOBS/N.log     the output, its user's
// JOBS/N.status  two lines: "PID START_TICKS" of who keeps it, written before anything starts, by
//                one alone; and how it ended (job_folder.hpp), for which room is kept, on a disk
//                that may be full by then. Behind them the job as the broker knew it when it
//                started, for a broker whose journal is lost.
//
// The folder belongs to the broker's user, and so does the keeper, also where that is root: only
// the workload becomes the job's user, who can change nothing here but the log.
#pragma once

#include <optional>
#include <string>

#include "model/job.hpp"
#include "run/launch.hpp"

namespace berth::run {

// `job_files`: "JOBS/N".

/// Who keeps the job; nullopt: nobody began to.
[[nodiscard]] std::optional<model::ProcessId> keeper_of(const std::string& job_files);
/// How it ended; nullopt: it did not, or nobody could write it down.
[[nodiscard]] std::optional<model::Outcome> outcome_of(const std::string& job_files);
/// Whether its keeper was told to end before it did: by the broker, or by a machine that stops.
[[nodiscard]] bool was_told_to_end(const std::string& job_files);
/// What it used; nothing of one that did not end, or that an older keeper kept.
[[nodiscard]] model::JobUsage usage_of(const std::string& job_files);
/// When that was written down, by the wall's clock in milliseconds; before it ended: when it began.
[[nodiscard]] std::optional<std::int64_t> ended_at(const std::string& job_files);
[[nodiscard]] std::string log_of(const std::string& job_files);
/// What Launch::job_record was; "" where it is not there.
[[nodiscard]] std::string job_record_in(const std::string& job_files);
/// As if it had never been started; its output stays.
void remove_status(const std::string& job_files);
void remove_files(const std::string& job_files);

/// The rest of the life of a fresh process, whose standard streams are /dev/null. Of several for
/// one job only the first keeps it.
[[noreturn]] void keep_queued(const Launch& launch);

}  // namespace berth::run
