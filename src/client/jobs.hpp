// Jobs as the broker's API tells them, back into plain values. What it does not tell (others' names
// and commands) stays empty; what it tells in a way of tomorrow is passed over.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "client/client.hpp"
#include "model/job.hpp"

namespace berth::client {

/// The error of an answer, or of another program with --json, in the language of who reads it
/// here; nullopt where none is told.
[[nodiscard]] std::optional<Error> error_in(std::string_view json_text);

/// The job of an answer, or its error, as the broker said it. Fails with kUnavailable (E0922) where
/// the answer is neither.
[[nodiscard]] Result<model::Job> job_in(const Response& response);
/// The jobs of a list, of an array, or the one of an answer with one.
[[nodiscard]] Result<std::vector<model::Job>> jobs_in(const Response& response);
/// Units that no job of this broker can have, of an answer with jobs.
struct Closed {
  std::vector<std::string> elsewhere;  // another broker of this machine gave them away
  std::vector<std::string> drained;
};
[[nodiscard]] Closed closed_in(const Response& response);
/// What …/why says.
[[nodiscard]] Result<model::JobOutlook> outlook_in(const Response& response);

}  // namespace berth::client
