#include "broker/arrays.hpp"

namespace berth::broker {

using model::Job;
using model::JobId;
using model::JobState;

void Arrays::add(const Job& job) {
  Array& array = arrays_[job.task->array];
  array.jobs.insert(job.id);
  if (!model::has_ended(job.state)) array.going.insert(job.id);
  if (job.state == JobState::kRunning) array.in_line.insert(job.id);
  if (model::has_ended(job.state) && job.state != JobState::kDone) array.is_good = false;
}

bool Arrays::enter(const Job& job) {
  Array& array = arrays_.at(job.task->array);
  const auto most = static_cast<std::size_t>(job.task->at_most);
  if (most > 0 && array.in_line.size() >= most && !array.in_line.contains(job.id)) {
    array.aside.insert(job.id);
    return false;
  }
  array.in_line.insert(job.id);
  return true;
}

std::optional<JobId> Arrays::leave(const Job& job) {
  Array& array = arrays_.at(job.task->array);
  array.aside.erase(job.id);
  if (array.in_line.erase(job.id) == 0 || array.aside.empty()) return std::nullopt;
  return array.aside.extract(array.aside.begin()).value();
}

bool Arrays::ended(const Job& job) {
  Array& array = arrays_.at(job.task->array);
  if (job.state != JobState::kDone) array.is_good = false;
  return array.going.erase(job.id) > 0 && array.going.empty();
}

bool Arrays::forget(const Job& job) {
  const auto found = arrays_.find(job.task->array);
  found->second.jobs.erase(job.id);
  if (!found->second.jobs.empty()) return false;
  arrays_.erase(found);
  return true;
}

bool Arrays::is_aside(const Job& job) const {
  return job.task && arrays_.at(job.task->array).aside.contains(job.id);
}

bool Arrays::is_over(JobId array) const {
  const auto found = arrays_.find(array);
  return found == arrays_.end() || found->second.going.empty();
}

bool Arrays::is_good(JobId array) const {
  const auto found = arrays_.find(array);
  return found == arrays_.end() || found->second.is_good;
}

std::set<JobId> Arrays::jobs(JobId array) const {
  const auto found = arrays_.find(array);
  return found == arrays_.end() ? std::set<JobId>() : found->second.jobs;
}

}  // namespace berth::broker
