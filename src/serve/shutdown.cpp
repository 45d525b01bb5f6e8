#include "serve/shutdown.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include "serve/watches.hpp"

namespace berth::serve {

using std::chrono::milliseconds;

std::size_t let_jobs_save(const std::map<model::JobId, model::Job>& jobs,
                          const std::function<void(model::JobId)>& tell) {
  milliseconds longest{0};
  std::vector<model::ProcessId> awaited;
  for (const auto& [id, job] : jobs) {
    if (job.state != model::JobState::kRunning || !job.warning || !job.warning->at_any_end)
      continue;
    tell(id);
    longest = std::max(longest, job.warning->before + job.grace.value_or(model::kDefaultGrace));
    // A job that was started in a terminal has two owners: its front (the `berth run` that the user
    // started) and its keeper. When the job ends, the front waits for an answer from this broker.
    // So if the broker waited for the front, both would block.
    const bool has_front = job.owners.size() > 1;
    awaited.insert(awaited.end(), job.owners.begin() + (has_front ? 1 : 0), job.owners.end());
  }
  constexpr milliseconds kPause(50), kForTheKeeper(1'000);
  const auto deadline = std::chrono::steady_clock::now() + longest + kForTheKeeper;
  while (!awaited.empty() && std::chrono::steady_clock::now() < deadline) {
    std::erase_if(awaited, [](const model::ProcessId& one) {
      return start_ticks_of(one.pid) != one.start_ticks;
    });
    if (!awaited.empty()) std::this_thread::sleep_for(kPause);
  }
  return awaited.size();
}

}  // namespace berth::serve
