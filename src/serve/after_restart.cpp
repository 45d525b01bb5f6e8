#include "serve/after_restart.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "serve/adoption.hpp"

namespace berth::serve {

using model::Job;
using model::JobId;
using model::JobState;

std::optional<model::Outcome> outcome_before_restart(const Job& job, const Launcher& launcher) {
  if (!job.told_to_end && launcher.was_told_to_end(job.id)) return std::nullopt;
  return launcher.outcome(job.id);
}

std::vector<JobId> put_back(std::vector<Job>& jobs, const Launcher& launcher,
                            std::int64_t now_unix_milliseconds) {
  std::vector<JobId> back;
  for (Job& job : jobs) {
    if (job.state != JobState::kRunning) continue;
    const bool is_preempted = job.told_to_end && job.told_to_end->state == JobState::kWaiting;
    const bool is_retry = job.next_try && !job.told_to_end && launcher.wants_next_try(job.id);
    if (!is_retry) job.next_try.reset();
    if (!is_preempted && !is_retry &&
        (!job.requeue || job.told_to_end || job.restarts >= model::kMostRestarts ||
         outcome_before_restart(job, launcher)))
      continue;
    if (is_preempted || is_retry) {
      // The time while the machine restarted does not count as run time.
      const std::int64_t ended = launcher.ended_at(job.id).value_or(now_unix_milliseconds);
      model::wait_again(job, launcher.outcome(job.id), std::min(ended, now_unix_milliseconds));
    } else {
      ++job.restarts;
      job.requeued_unix_milliseconds = now_unix_milliseconds;
      model::take_back(job, JobState::kWaiting);
    }
    back.push_back(job.id);
  }
  return back;
}

Mended mend_stale(std::vector<Job>& jobs, const broker::Salvage& salvaged, const Launcher& launcher,
                  std::int64_t now_unix_milliseconds) {
  Mended mended;
  for (Job& job : jobs) {
    if (!job.queued || model::has_ended(job.state) ||
        !std::binary_search(salvaged.stale.begin(), salvaged.stale.end(), job.id))
      continue;
    if (auto known = job_from_files(launcher.folder() + "/" + std::to_string(job.id), job.id,
                                    now_unix_milliseconds)) {
      job = *std::move(known);
    } else if (job.state == JobState::kWaiting || !launcher.keeper(job.id)) {
      model::take_back(job, JobState::kHeld);
      mended.held.push_back(job.id);
    } else {
      continue;
    }
    mended.changed.insert(job.id);
  }
  return mended;
}

std::vector<Told> words_of(const broker::Salvage& salvaged, const std::vector<JobId>& held) {
  std::vector<Told> all;
  if (!salvaged.folder.empty())
    all.push_back(
        {text("the journal was damaged: {} jobs were saved, and the damaged files are in {}",
              salvaged.jobs, printable(salvaged.folder)),
         "berth jobs --all"});
  else if (salvaged.jobs > 0)
    all.push_back(
        {text("the journal was missing: {} jobs were restored from its last copy", salvaged.jobs),
         "berth jobs --all"});
  if (!salvaged.lost.empty())
    all.push_back(
        {text("the records of these jobs are not readable: {}", list_of_jobs(salvaged.lost)), ""});
  if (salvaged.nameless > 0)
    all.push_back({text("records without a readable number: {}", salvaged.nameless), ""});
  if (!held.empty())
    all.push_back(
        {text("these jobs are held, because their last change may be lost: {}", list_of_jobs(held)),
         fmt::format("berth release {}", held.front())});
  return all;
}

}  // namespace berth::serve
