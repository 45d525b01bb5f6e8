// What `run` and `lease` ask the broker for, as a job; and `berth run --queue`, which leaves the
// rest to it.
#pragma once

#include <map>
#include <string>

#include "base/result.hpp"
#include "cli/verb.hpp"
#include "model/job.hpp"

namespace berth::cli {

/// Name, command, limits and place in the line, of the options. Fails with kInvalidArgument (E0103,
/// E0104, E0010).
[[nodiscard]] Result<model::Job> job_of(const Arguments& arguments, const model::Request& request);

/// Hands the job to the broker and prints its number. Fails as client::reach and as the broker.
[[nodiscard]] Result<int> queue_job(const Context& context, const model::Request& request,
                                    const std::map<std::string, std::string>& variables);

}  // namespace berth::cli
