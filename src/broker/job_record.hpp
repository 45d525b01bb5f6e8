// A job as one JSON document, in the journal and in requests of clients.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/job.hpp"
#include "model/limits.hpp"

namespace berth::broker {

[[nodiscard]] std::string record_of(const model::Job& job);
/// Ignores unknown keys, so that an older broker can read the records of a newer one. Fails with
/// kInvalidArgument (E0904).
[[nodiscard]] Result<model::Job> job_of(std::string_view record);

/// The request of a client: a job and, if it is queued, how to start it.
struct Submission {
  model::Job job;
  std::optional<std::string> array;  // range of indices; each index is one job
  std::string folder;
  unsigned mask = 0;
  model::Limits limits;
  std::vector<std::string> command;  // the exact bytes, while the command in `job` is for display
  std::vector<std::string> environment;  // "NAME=value"
};
/// Fails with kInvalidArgument (E0904; E0913: a queued job lacks what is needed to start it).
[[nodiscard]] Result<Submission> submission_of(std::string_view body);

/// A unit that is drained or resumed. `lent_to`: the scheduler to which it is lent, or empty.
struct UnitCall {
  std::string unit, lent_to;
};
/// running_change_of() reads the body of the call `owners`, `enter` or `end`. unit_of() reads the
/// body of `drain`. Both reject unknown keys (E0904).
[[nodiscard]] Result<model::Job> running_change_of(std::string_view body, std::string_view what);
[[nodiscard]] Result<UnitCall> unit_of(std::string_view body);

/// The body of the call `next-try`: {"number":2,"after":"device fault","without":["GPU-…"],
/// "pause_milliseconds":1000}.
[[nodiscard]] std::string record_of(const model::QueuedTry& next);
/// Fails with kInvalidArgument (E0904, E0104).
[[nodiscard]] Result<model::QueuedTry> next_try_of(std::string_view body);
/// The body of the call `hang`: a sentence that says where the job's ranks hang, or an empty string
/// if they do not hang.
[[nodiscard]] std::string hang_record(const std::string& sentence);
/// Fails with kInvalidArgument (E0904).
[[nodiscard]] Result<std::string> hang_of(std::string_view body);

}  // namespace berth::broker
