#include "serve/shutdown.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <vector>

#include "base/file.hpp"
#include "serve/watches.hpp"

namespace berth::serve {
namespace {

model::Job job_of(std::vector<model::ProcessId> owners) {
  model::Job job;
  job.state = model::JobState::kRunning;
  job.warning = model::Warning{SIGUSR1, std::chrono::milliseconds(0), true};
  job.grace = std::chrono::milliseconds(0);
  job.owners = std::move(owners);
  return job;
}

}  // namespace

TEST_CASE("a shutdown waits for keepers, and not for the front of a lease") {
  const model::ProcessId alive{::getpid(), start_ticks_of(::getpid()).value()};
  const model::ProcessId gone{::getpid(), alive.start_ticks + 1};
  std::vector<model::JobId> told;
  const auto tell = [&](model::JobId id) { told.push_back(id); };
  CHECK(let_jobs_save({{7, job_of({alive, gone})}}, tell) == 0);
  CHECK(let_jobs_save({{8, job_of({gone, alive})}}, tell) == 1);
  CHECK(let_jobs_save({{9, job_of({alive})}}, tell) == 1);
  CHECK(told == std::vector<model::JobId>{7, 8, 9});
}

}  // namespace berth::serve
