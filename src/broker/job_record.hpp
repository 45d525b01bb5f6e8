// A job as one JSON document: how the journal keeps it, and how a client sends what it asks for.
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
/// Unknown keys are passed over, so that an older broker reads what a newer one wrote. Fails with
/// kInvalidArgument (E0904).
[[nodiscard]] Result<model::Job> job_of(std::string_view record);

/// What a client asks for: a job, and where and with what a queued one starts.
struct Submission {
  model::Job job;
  std::optional<std::string> array;  // a range: as many jobs
  std::string folder;
  unsigned mask = 0;
  model::Limits limits;
  std::vector<std::string> command;      // its bytes; the job's own is what is told of it
  std::vector<std::string> environment;  // "NAME=value"
};
/// Fails with kInvalidArgument (E0904; E0913: a queued job without what it needs to start).
[[nodiscard]] Result<Submission> submission_of(std::string_view body);

}  // namespace berth::broker
