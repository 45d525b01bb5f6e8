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
                     broker::Journal journal, Launcher launcher, std::optional<Fence> fence,
                     std::function<void(const std::set<JobId>&)> changed)
    : options_(options),
      journal_(std::move(journal)),
      launcher_(std::move(launcher)),
      fence_(std::move(fence)),
      watches_(loop, [this](JobId id) { all_gone(id); }),
      changed_(std::move(changed)) {}

const model::GpuNodes& Execution::nodes() const {
  static const model::GpuNodes none;
  return fence_ ? fence_->nodes() : none;
}

void Execution::see(Look look) {
  if (fence_) fence_->see(look.snapshot);
  broker_.see(std::move(look.snapshot), std::move(look.processes));
}

void Execution::restore() {
  auto jobs = journal_.jobs();
  if (!jobs) {
    fault_ = jobs.error();
    return;
  }
  for (const Job& job : *jobs) broker_.restore(job, now());
  std::set<JobId> running;
  for (const Job& job : *jobs) {
    if (job.state != JobState::kRunning) continue;
    running.insert(job.id);
    if (fence_ && fence_->has_group(job.id))
      enclose(job.id);
    else if (!job.group.empty())
      broker_.set_access(job.id, model::Access::kVariable, "");
    find_again(job);
  }
  if (fence_) fence_->clean_up(running);
}

/// By the kernel where that can be done, else by variables.
void Execution::enclose(JobId id) {
  if (!fence_) return;
  const Job& job = *broker_.job(id);
  auto group = fence_->enclose(job, broker_.snapshot());
  if (!group) {
    notes_.push_back(
        text("job {} is kept from other devices by variables only: {}", id, group.error().message));
    return;
  }
  // A lease has no process in it yet, unless a broker before brought them there.
  const bool is_inside = job.queued || job.access == model::Access::kKernel;
  broker_.set_access(id, is_inside ? model::Access::kKernel : model::Access::kVariable,
                     *std::move(group));
}

void Execution::end(JobId id, JobState state, const std::optional<model::Outcome>& outcome,
                    std::string why) {
  if (fence_) broker_.set_refusals(id, fence_->release(id));
  broker_.end(id, state, outcome, std::move(why), now());
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
    for (const JobId id : started) enclose(id);
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

Status Execution::enter(JobId id, const std::vector<model::ProcessId>& processes,
                        std::uint32_t user) {
  const Job* job = broker_.job(id);
  if (!fence_ || job->state != JobState::kRunning || job->group.empty())
    return Error{ErrorCode::kUnsupported, "E0941", text("job {} has no control group", id), ""};
  std::vector<model::ProcessId> owners = job->owners;
  for (const model::ProcessId& one : processes) {
    if (auto admitted = fence_->admit(id, one, user); !admitted) return admitted;
    owners.push_back(one);
  }
  broker_.set_access(id, model::Access::kKernel, job->group);
  set_owners(id, owners);
  return Done{};
}

void Execution::give_back(JobId id, const std::optional<model::Outcome>& outcome) {
  const bool is_good = outcome && outcome->kind == model::OutcomeClass::kOk;
  end(id, is_good ? JobState::kDone : JobState::kFailed, outcome, "");
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
  end(id, JobState::kLost, {},
      std::string(tr("its processes are gone, and nobody said how they ended")));
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
    return end(id, state, outcome, told.empty() ? "" : told.mapped().why);
  }
  const auto keeper = launcher_.keeper(id);
  const bool lives = keeper && start_ticks_of(keeper->pid) == keeper->start_ticks;
  if (!lives) return end_lost(id);
  set_owners(id, {*keeper});
}

/// Starts what the broker starts itself; what cannot start has ended.
void Execution::launch(JobId id) {
  if (fence_ && broker_.job(id)->group.empty()) enclose(id);
  const Job& job = *broker_.job(id);
  const auto keeper = launcher_.start_job(job, broker_.snapshot());
  if (!keeper) return end(id, JobState::kFailed, model::Outcome{}, keeper.error().message);
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

std::vector<std::string> Execution::keep_fences() {
  auto notes = std::exchange(notes_, {});
  if (!fence_) return notes;
  auto more = fence_->keep();
  notes.insert(notes.end(), more.begin(), more.end());
  return notes;
}

void Execution::leave() const {
  if (fence_) fence_->leave();
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
