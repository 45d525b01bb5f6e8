// Jobs as the broker's API tells them, back into plain values. What it does not tell (others' names
// and commands) stays empty; what it tells in a way of tomorrow is passed over.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "client/client.hpp"
#include "model/job.hpp"

namespace berth::client {

/// The job of an answer, or its error, as the broker said it. Fails with kUnavailable (E0922) where
/// the answer is neither.
[[nodiscard]] Result<model::Job> job_in(const Response& response);
[[nodiscard]] Result<std::vector<model::Job>> jobs_in(const Response& response);
/// Units that other brokers of this machine gave away, of an answer with jobs.
[[nodiscard]] std::vector<std::string> elsewhere_in(const Response& response);
/// What …/why says.
[[nodiscard]] Result<model::JobOutlook> outlook_in(const Response& response);

}  // namespace berth::client
