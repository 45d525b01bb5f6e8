#include "serve/stopped_jobs.hpp"

#include <chrono>
#include <csignal>

namespace berth::serve {

using std::chrono::milliseconds;

void StoppedJobs::press(policy::Instant now, const broker::Broker& broker, Watches& watches) {
  constexpr milliseconds kPatience(10'000);
  for (auto& [id, one] : jobs_) {
    const model::Job* job = broker.job(id);
    const milliseconds grace =
        job == nullptr ? model::kDefaultGrace : job->grace.value_or(model::kDefaultGrace);
    const bool has_front = watches.count(id) > 1;
    const bool has_keeper = has_front || (job != nullptr && job->queued);
    const bool may_save = has_keeper && job != nullptr && job->warning && job->warning->at_any_end;
    const milliseconds wait = grace + (has_keeper ? kPatience : milliseconds(0)) +
                              (may_save ? job->warning->before : milliseconds(0));
    if (now - one.since < wait + one.pressed * kPatience) continue;
    watches.signal(id, one.pressed++ == 0 && has_front ? SIGTERM : SIGKILL);
  }
}

}  // namespace berth::serve
