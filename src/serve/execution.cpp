#include "serve/execution.hpp"

#include <chrono>
#include <csignal>

#include "base/text.hpp"
#include "base/units.hpp"

namespace berth::serve {

using broker::Caller;
using model::Job;
using model::JobId;
using model::JobState;
using std::chrono::milliseconds;

broker::Now now() {
  using std::chrono::duration_cast;
  return {duration_cast<milliseconds>(std::chrono::steady_clock::now().time_since_epoch()),
          duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count()};
}

Execution::Execution(boost::asio::io_context& loop, const DaemonOptions& options,
                     broker::Journal journal, Launcher launcher,
                     std::function<void(const std::set<JobId>&)> changed)
    : options_(options),
      journal_(std::move(journal)),
      launcher_(std::move(launcher)),
      watches_(loop, [this](JobId id) { all_gone(id); }),
      changed_(std::move(changed)) {}

void Execution::see(Look look) {
  broker_.see(std::move(look.snapshot), std::move(look.processes));
}

void Execution::restore() {
  auto jobs = journal_.jobs();
  if (!jobs) {
    fault_ = jobs.error();
    return;
  }
  for (const Job& job : *jobs) broker_.restore(job, now());
  for (const Job& job : *jobs)
    if (job.state == JobState::kRunning) find_again(job);
}

void Execution::find_again(const Job& job) {
  if (!job.owners.empty() || !job.queued) return watches_.watch(job.id, job.owners);
  // It was written down that it runs; whether it was started its folder knows.
  const auto keeper = launcher_.keeper(job.id);
  if (!keeper) return launch(job.id);
  set_owners(job.id, {*keeper});
}

bool Execution::settle() {
  while (!fault_) {
    if (broker_.queue().waiting_count() > 0) broker_.set_elsewhere(locks_.take(broker_.units()));
    const auto started = broker_.start_what_fits(now());
    locks_.keep(leased_units());
    const auto changed = broker_.changed();
    if (changed.empty()) return true;
    std::vector<const Job*> rows;
    rows.reserve(changed.size());
    for (const JobId id : changed) rows.push_back(broker_.job(id));
    if (auto written = journal_.write(rows); !written) {
      fault_ = written.error();
      return false;
    }
    is_dirty_ = true;
    changed_(changed);
    // Only what is written down may run: a broker that follows this one would start it again.
    for (const JobId id : started)
      if (broker_.job(id)->queued) launch(id);
  }
  return false;
}

std::vector<std::string> Execution::leased_units() const {
  std::vector<std::string> units;
  for (const model::Holding& one : broker_.ledger().holdings)
    if (one.job != 0) units.push_back(one.unit);
  return units;
}

// What callers may ask for.

Result<JobId> Execution::submit(Job job, const Call& call) {
  if (job.queued) {
    job.id = broker_.next_id();
    job.log = launcher_.log(job.id);
    if (auto ready = launcher_.prepare(job, call); !ready) return std::move(ready).error();
  }
  const bool is_lease = !job.queued;
  const auto owners = job.owners;
  const auto id = broker_.submit(std::move(job), now());
  if (id && is_lease) watches_.watch(*id, owners);
  return id;
}

Status Execution::cancel(JobId id, Caller caller) {
  const Job* job = broker_.job(id);
  const bool runs = job != nullptr && job->state == JobState::kRunning;
  if (!runs || (!caller.admin && caller.uid != job->uid)) return broker_.cancel(id, caller, now());
  stop(id, {});
  return Done{};
}

Status Execution::hold(JobId id, bool held, Caller caller) {
  return broker_.hold(id, held, caller, now());
}

void Execution::set_owners(JobId id, const std::vector<model::ProcessId>& owners) {
  broker_.set_owners(id, owners);
  watches_.watch(id, owners);
}

void Execution::give_back(JobId id, const std::optional<model::Outcome>& outcome) {
  const bool is_good = outcome && outcome->kind == model::OutcomeClass::kOk;
  broker_.end(id, is_good ? JobState::kDone : JobState::kFailed, outcome, "", now());
  watches_.forget(id);
  stopped_.erase(id);
}

// The processes of jobs.

void Execution::all_gone(JobId id) {
  const Job* job = broker_.job(id);
  if (job == nullptr) return;
  if (job->state != JobState::kRunning)
    static_cast<void>(broker_.cancel(id, {job->uid, true}, now()));
  else if (!job->queued)
    end_lost(id);
  else
    keeper_gone(*job);
  settle();
}

void Execution::end_lost(JobId id) {
  stopped_.erase(id);
  broker_.end(id, JobState::kLost, {},
              std::string(tr("its processes are gone, and nobody said how they ended")), now());
}

/// What it wrote last, or who kept the job in its place (two may be started for one job where the
/// broker died in between; the first keeps it).
void Execution::keeper_gone(const Job& job) {
  const JobId id = job.id;
  if (const auto outcome = launcher_.outcome(id)) {
    const auto told = stopped_.extract(id);
    const bool is_good = outcome->kind == model::OutcomeClass::kOk;
    const JobState state = !told.empty() ? told.mapped().state
                           : is_good     ? JobState::kDone
                                         : JobState::kFailed;
    return broker_.end(id, state, outcome, told.empty() ? "" : told.mapped().why, now());
  }
  const auto keeper = launcher_.keeper(id);
  const bool lives = keeper && start_ticks_of(keeper->pid) == keeper->start_ticks;
  if (!lives) return end_lost(id);
  set_owners(id, {*keeper});
}

/// Starts what the broker starts itself; what cannot start has ended.
void Execution::launch(JobId id) {
  const Job& job = *broker_.job(id);
  const auto keeper = launcher_.start_job(job, broker_.snapshot());
  if (!keeper)
    return broker_.end(id, JobState::kFailed, model::Outcome{}, keeper.error().message, now());
  set_owners(id, {*keeper});
}

void Execution::stop(JobId id, Stopped how) {
  if (!watches_.signal(id, SIGTERM)) return;
  stopped_.insert_or_assign(id, std::move(how));
}

// What time brings.

void Execution::stop_what_is_over_its_limit() {
  const auto at = now();
  for (const JobRoot& root : watches_.roots()) {
    // By the queue's clock, which does not jump with the wall's.
    const policy::RunningJob* running = broker_.queue().running(root.job);
    if (running == nullptr || !running->time_limit ||
        at.steady - running->started < *running->time_limit)
      continue;
    stop(root.job, {JobState::kFailed,
                    text("its time limit of {} was over", show_duration(*running->time_limit))});
  }
}

void Execution::forget_old() {
  const auto gone = broker_.forget_ended_before(now().unix_milliseconds - options_.keep.count());
  if (gone.empty()) return;
  if (auto written = journal_.write({}, gone); !written) {
    fault_ = written.error();
    return;
  }
  for (const JobId id : gone) launcher_.forget(id);
  is_dirty_ = true;
}

}  // namespace berth::serve
