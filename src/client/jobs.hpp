// Reads the jobs in the broker's answers. Values that an answer omits (names and commands of other
// users) stay empty; unknown keys of newer brokers are ignored.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "client/client.hpp"
#include "model/job.hpp"
#include "model/ledger.hpp"

namespace berth::client {

/// The error in an answer, or in another program's --json output, translated for this process;
/// nullopt if there is none.
[[nodiscard]] std::optional<Error> error_in(std::string_view json_text);

/// A unique key for a submission: repeating the submission with this key returns the same job.
[[nodiscard]] std::string new_key();

/// The job in an answer, or the broker's error. Fails with kUnavailable (E1140) if the answer is
/// neither.
[[nodiscard]] Result<model::Job> job_in(const Response& response);
/// The jobs in an answer: those of a list or an array, or a single job.
[[nodiscard]] Result<std::vector<model::Job>> jobs_in(const Response& response);
/// Reads from an answer with jobs which units get no new jobs.
[[nodiscard]] model::ClosedUnits closed_in(const Response& response);
/// The broker's notices to users in an answer with jobs, for example that its journal cannot be
/// written.
[[nodiscard]] std::vector<Error> notices_in(const Response& response);
/// How many jobs the answer omits because of the limit in the call.
[[nodiscard]] std::uint64_t not_shown_in(const Response& response);
/// Reads the answer of /v1/jobs/ID/why.
[[nodiscard]] Result<model::JobOutlook> outlook_in(const Response& response);

}  // namespace berth::client
