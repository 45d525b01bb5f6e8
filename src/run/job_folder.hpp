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
/// FOLDER/status: {"schema":1,"pid","exit_code","signal"}, complete or not there. Nothing happens
/// for "".
void write_status(const std::string& folder, pid_t pid, int wait_status);
/// Keeps room for it, on a disk that may be full when the job ends.
void reserve_status(const std::string& folder);
void remove_job_folder(const std::string& folder);

}  // namespace berth::run
