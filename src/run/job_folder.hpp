// The job's folder under Berth's runtime folder, where the keeper writes the exit status. If the
// front (the `berth run` that the user started) dies, the folder remains until the keeper has ended
// the job. Jobs also run if the folder cannot be created.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.hpp"

namespace berth::run {

/// Creates RUNTIME/jobs/PID. Leaves nothing behind if it fails with kUnavailable (E0514).
[[nodiscard]] Result<std::string> make_job_folder();
/// The content of the status file: {"schema":1,"pid","exit_code","signal"}, on one line.
[[nodiscard]] std::string status_line(pid_t pid, int wait_status);
/// Writes FOLDER/status atomically. Does nothing if `folder` is "".
void write_status(const std::string& folder, pid_t pid, int wait_status);
void remove_job_folder(const std::string& folder);

}  // namespace berth::run
