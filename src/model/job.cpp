#include "model/job.hpp"

#include <array>

namespace berth::model {
namespace {

constexpr std::array<std::string_view, 7> kStates{"waiting", "held",      "running", "done",
                                                  "failed",  "cancelled", "lost"};

}  // namespace

std::string_view name(JobState state) {
  return kStates.at(static_cast<std::size_t>(state));
}

std::optional<JobState> job_state(std::string_view name) {
  for (std::size_t i = 0; i < kStates.size(); ++i)
    if (kStates[i] == name) return static_cast<JobState>(i);
  return std::nullopt;
}

std::string job_number(const Job& job) {
  return job.task ? std::to_string(job.task->array) + "_" + std::to_string(job.task->index)
                  : std::to_string(job.id);
}

}  // namespace berth::model
