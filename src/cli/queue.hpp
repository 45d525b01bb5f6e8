// Turns the options of `run` and `lease` into a job for the broker, and implements `berth run
// --queue`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/verb.hpp"
#include "client/client.hpp"
#include "model/job.hpp"

namespace berth::cli {

/// Makes a job from the options: name, command, limits and priority. Fails with kInvalidArgument
/// (E0103, E0104, E0010).
[[nodiscard]] Result<model::Job> job_of(const Arguments& arguments, const model::Request& request);

/// The jobs and arrays of --after, grouped by the condition: success, end or failure.
struct After {
  std::vector<model::JobId> ok, any, not_ok;
};
/// Parses the values of --after, such as "7,sweep,any:8,not-ok:9". Returns the errors of
/// JobCalls::id_of.
[[nodiscard]] Result<After> jobs_before(const std::vector<std::string>& lists);

/// Prints the number of the queued job: on a terminal in a sentence, otherwise only the number.
void say_queued(const Context& context, const client::Response& answer,
                const std::vector<model::Job>& queued);
/// Rejects options that only work with --queue. Fails with kInvalidArgument (E0013).
[[nodiscard]] Status check_not_queued(const Arguments& arguments);

/// Submits the job to the broker and prints its number. The broker starts `command`, but `berth
/// jobs` shows the command that the user typed. Fails as client::reach, and with the broker's
/// error.
[[nodiscard]] Result<int> queue_job(const Context& context, const model::Request& request,
                                    const std::map<std::string, std::string>& variables,
                                    const std::vector<std::string>& command);

}  // namespace berth::cli
