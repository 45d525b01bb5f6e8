// The job's folder under Berth's runtime folder, where the keeper leaves the exit status: it
// outlives the front, and later the broker. A machine where it cannot be made runs jobs all the
// same.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.hpp"

namespace berth::run {

/// Makes RUNTIME/jobs/PID, or nothing at all. Fails with kUnavailable (E0514).
[[nodiscard]] Result<std::string> make_job_folder();
/// {"schema":1,"pid","exit_code","signal"}, a line.
[[nodiscard]] std::string status_line(pid_t pid, int wait_status);
/// FOLDER/status: that line, complete or not there. Nothing happens for "".
void write_status(const std::string& folder, pid_t pid, int wait_status);
void remove_job_folder(const std::string& folder);

}  // namespace berth::run
