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

/// The jobs and arrays that --after names, grouped by how they must have ended: with success, in
/// any way, or with failure.
struct After {
  std::vector<model::JobId> ok, any, not_ok;
};
/// Parses the values of --after, such as "7,sweep,any:8,not-ok:9". Fails with the errors of
/// JobCalls::id_of().
[[nodiscard]] Result<After> jobs_before(const std::vector<std::string>& lists);

/// Prints the number of the queued job: a sentence on a terminal, only the number if stdout is not
/// a terminal.
void say_queued(const Context& context, const client::Response& answer,
                const std::vector<model::Job>& queued);
/// Fails if an option is given that only works with --queue. The error is kInvalidArgument (E0013).
[[nodiscard]] Status check_not_queued(const Arguments& arguments);

/// Submits the job to the broker and prints its number. The broker starts `command`; `berth jobs`
/// shows the command that the user typed. Fails with the errors of client::reach(), or with the
/// broker's error.
[[nodiscard]] Result<int> queue_job(const Context& context, const model::Request& request,
                                    const std::map<std::string, std::string>& variables,
                                    const std::vector<std::string>& command);

}  // namespace berth::cli
