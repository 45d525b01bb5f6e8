// A queued job has no front. Its keeper runs in its own session, writes the output to a log, and
// writes the exit status to a file. It outlives the broker, which reads the files later. All jobs
// share one folder, because a folder per job would cost as much as all other writes of a short job.
//
// JOBS/N.log     the output; belongs to the job's user
// JOBS/N.report  what the job used; written after its end, if it ran for half a second
// JOBS/N.tries   the tries before this start, if the job went back to the queue (queued_tries.hpp)
// JOBS/N.stuck   "PID START_TICKS" of each process that could not be killed; else it is not there
// JOBS/N.status  first line: "PID START_TICKS" of the keeper, written exclusively before the start.
//                Second line: how the job ended (job_folder.hpp). Its space is allocated early,
//                because the disk may be full later. After that: the broker's record of the job,
//                for a broker that has lost its journal.
//
// The folder and the keeper belong to the broker's user, even if that is root. Only the workload
// runs as the job's user, who can write only the log.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/job.hpp"
#include "run/launch.hpp"
#include "run/queued_watch.hpp"

namespace berth::run {

// `job_files`: "JOBS/N".

/// The job's keeper; nullopt if none has started.
[[nodiscard]] std::optional<model::ProcessId> keeper_of(const std::string& job_files);
/// How the job ended; nullopt if it has not ended, or the status could not be written.
[[nodiscard]] std::optional<model::Outcome> outcome_of(const std::string& job_files);
/// Whether the broker or a shutdown asked the keeper to end the job before it ended by itself.
[[nodiscard]] bool was_told_to_end(const std::string& job_files);
/// Whether the job ended in order to go back to the queue for its next try (queued_tries.hpp).
[[nodiscard]] bool wants_next_try(const std::string& job_files);
/// The job's resource usage; empty if the job has not ended, or if an older keeper wrote the
/// status.
[[nodiscard]] model::JobUsage usage_of(const std::string& job_files);
/// Processes of the job that could not be killed.
[[nodiscard]] std::vector<model::ProcessId> stuck_of(const std::string& job_files);
/// When the job ended, in milliseconds of the wall clock; if it has not ended, when it began.
[[nodiscard]] std::optional<std::int64_t> ended_at(const std::string& job_files);
[[nodiscard]] std::string log_of(const std::string& job_files);
/// The value of Launch::job_record; "" if it is missing.
[[nodiscard]] std::string job_record_in(const std::string& job_files);
/// Removes the status and the report, as if the job had never started. Keeps its output.
void forget_start(const std::string& job_files);
void remove_files(const std::string& job_files);

/// Runs in a new process, whose standard streams are /dev/null, until it exits. If several keepers
/// start for one job, only the first runs it. `write`: makes the job's report; if it is empty,
/// there is no report. `announce`: see start_watch().
[[noreturn]] void keep_queued(const Launch& launch, const WriteReport& write, int announce);

}  // namespace berth::run
