// What becomes of the broker's records with time.
#include "broker/broker.hpp"

namespace berth::broker {

void Broker::move_times(std::int64_t from, std::int64_t to, std::int64_t by) {
  const auto move = [&](std::int64_t& time) {
    const bool is_between = from <= time && time <= to;
    if (is_between) time += by;
    return is_between;
  };
  for (auto& [id, job] : jobs_) {
    bool moved = move(job.submitted_unix_milliseconds);
    if (job.requeued_unix_milliseconds) moved = move(*job.requeued_unix_milliseconds) || moved;
    if (job.started_unix_milliseconds) moved = move(*job.started_unix_milliseconds) || moved;
    if (job.ended_unix_milliseconds) moved = move(*job.ended_unix_milliseconds) || moved;
    if (moved) changed_.insert(id);
  }
}

std::vector<JobId> Broker::forget_ended_before(
    std::int64_t unix_milliseconds, const std::map<std::uint32_t, std::int64_t>& of_user) {
  const auto before = [&](const Job& job) {
    const auto theirs = of_user.find(job.uid);
    return theirs == of_user.end() ? unix_milliseconds
                                   : std::max(unix_milliseconds, theirs->second);
  };
  std::vector<JobId> gone;
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    const Job& job = at->second;
    // The newest stays: from it a broker that follows this one knows which numbers were used.
    const bool is_old = model::has_ended(job.state) && !followers_.contains(job.id) &&
                        !(job.task && followers_.contains(job.task->array)) && job.id + 1 < next_ &&
                        job.ended_unix_milliseconds.value_or(0) < before(job);
    if (is_old) gone.push_back(job.id);
    if (is_old && job.task && arrays_.forget(job)) gone.push_back(job.task->array);
    at = is_old ? jobs_.erase(at) : std::next(at);
  }
  for (const JobId id : gone) changed_.erase(id);
  return gone;
}

}  // namespace berth::broker
