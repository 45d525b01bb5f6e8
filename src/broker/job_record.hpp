// A job as one JSON document: how the journal keeps it, and how a client sends what it asks for.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "model/job.hpp"

namespace berth::broker {

[[nodiscard]] std::string record_of(const model::Job& job);
/// Unknown keys are passed over, so that an older broker reads what a newer one wrote. Fails with
/// kInvalidArgument (E0904).
[[nodiscard]] Result<model::Job> job_of(std::string_view record);

}  // namespace berth::broker
