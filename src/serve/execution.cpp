// One class in one file, in four parts: requests of callers, the processes of jobs, the return of a
// broker after a restart or a fault, and periodic work. All parts change the same state and follow
// one rule: nothing is reported or started before it is in the journal.
#include "serve/execution.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "inventory/memory_limit.hpp"
#include "run/ending.hpp"
#include "run/launch_record.hpp"
#include "run/warning.hpp"
#include "serve/adoption.hpp"
#include "serve/after_restart.hpp"
#include "serve/aside_record.hpp"
#include "serve/end_notice.hpp"
#include "serve/shutdown.hpp"

namespace berth::serve {

using Json = nlohmann::json;
using broker::Caller;
using model::Job;
using model::JobId;
using model::JobState;
using std::chrono::milliseconds;

namespace {

Error no_launch(const Job& job) {
  return {ErrorCode::kInvalidArgument, "E0948",
          text("job {} was not queued: only queued jobs can be run again", model::job_number(job)),
          "berth run --queue -- COMMAND"};
}

}  // namespace

broker::Now now() {
  using std::chrono::duration_cast;
  return {duration_cast<milliseconds>(std::chrono::steady_clock::now().time_since_epoch()),
          duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count()};
}

Execution::Execution(boost::asio::io_context& loop, const DaemonOptions& options,
                     broker::Journal journal, Launcher launcher, std::optional<Fence> fence,
                     std::function<void(const std::set<JobId>&)> changed)
    : loop_(loop),
      options_(options),
      journal_(std::move(journal)),
      launcher_(std::move(launcher)),
      fence_(std::move(fence)),
      partitions_({options_.sources.nvml_library, options_.settings.mig}, broker_, fence_,
                  {[this] { return now(); },
                   [this](const std::string& record) { return save_partitions(record); },
                   [this](const std::string& sentence, const Error& error) {
                     notice(error.id, sentence, error.hint);
                   },
                   [this](const Error& error) {
                     if (!fault_) fail(error);
                   }}),
      watches_(loop, [this](JobId id) { all_gone(id); }),
      changed_(std::move(changed)) {}

const model::GpuNodes& Execution::nodes() const {
  static const model::GpuNodes none;
  return fence_ ? fence_->nodes() : none;
}

void Execution::see(Look look, policy::Instant began) {
  partitions_.see(look);
  if (fence_) fence_->see(look.snapshot);
  broker_.see(std::move(look.snapshot), std::move(look.processes));
  broker_.end_pauses(began);
  partitions_.offer();
}

Status Execution::save_partitions(const std::string& record) {
  is_dirty_ = true;
  return journal_.set_value(kMig, record);
}

/// Lets the kernel restrict the job to its devices if possible. If not, only environment variables
/// restrict it.
void Execution::enclose(JobId id) {
  if (!fence_) return;
  const Job& job = *broker_.job(id);
  auto group = fence_->enclose(job, broker_.snapshot());
  if (!group) {
    notes_.push_back(text("only environment variables restrict job {} to its devices: {}",
                          model::job_number(job), group.error().message));
    return;
  }
  // The owner of a lease enters the group later, so until then only variables restrict the lease.
  // Exception: an earlier broker has already moved the owner there.
  const bool is_inside = job.queued || job.access == model::Access::kKernel;
  broker_.set_access(id, is_inside ? model::Access::kKernel : model::Access::kVariable,
                     *std::move(group));
  limit_memory(id);
}

void Execution::limit_memory(JobId id) {
  const Job& job = *broker_.job(id);
  const model::Snapshot& snapshot = broker_.snapshot();
  if (job.group.empty() || !job.request.driver_limits.value_or(true) ||
      !inventory::can_limit_memory(snapshot.driver))
    return;
  std::vector<inventory::MemoryLimit> limits;
  for (const model::Grant& grant : job.grants)
    for (const model::Device& device : snapshot.devices)
      if (device.vendor == model::Vendor::kNvidia && device.uuid == grant.unit &&
          grant.memory_bytes > 0)
        limits.push_back({grant.unit, grant.memory_bytes});
  if (limits.empty()) return;
  // The limits last as long as the control group, which is removed at the end of the job, even if
  // the broker has crashed.
  if (auto set = inventory::set_memory_limits(options_.sources.nvml_library, job.group, limits);
      !set)
    notes_.push_back(text("job {} is limited by the guard alone: {}", model::job_number(job),
                          set.error().message));
}

void Execution::end(JobId id, JobState state, const std::optional<model::Outcome>& outcome,
                    std::string why) {
  if (fence_) broker_.set_refusals(id, fence_->release(id));
  partitions_.release(id);
  // If the job ended while no broker was running, use the end time in its status file. A difference
  // of less than a second is ignored.
  constexpr std::int64_t kWhile = 1000;
  broker::Now at = now();
  if (const auto ended = outcome ? launcher_.ended_at(id) : std::nullopt;
      ended && *ended < at.unix_milliseconds - kWhile)
    at.unix_milliseconds =
        std::max(*ended, broker_.job(id)->started_unix_milliseconds.value_or(*ended));
  broker_.end(id, state, outcome, std::move(why), at);
  const Job& job = *broker_.job(id);
  if (job.notify && model::has_ended(job.state)) to_notify_.push_back(id);
}

void Execution::know_user(const Job& job) {
  if (!known_users_.insert(job.uid).second) return;
  const auto found = options_.settings.users.find(job.user);
  broker_.set_user(
      job.uid, found == options_.settings.users.end() ? options_.settings.everyone : found->second);
}

bool Execution::settle() {
  while (!fault_) {
    if (broker_.queue().waiting_count() > 0) broker_.set_elsewhere(others_.leased(broker_.units()));
    auto started = broker_.start_what_fits(now());
    partitions_.make(started);
    if (fault_) return false;
    for (const JobId id : started)
      if (!broker_.job(id)->queued) enclose(id);  // queued jobs are enclosed when they are launched
    for (const auto& [id, why] : broker_.to_preempt(now())) stop(id, {JobState::kWaiting, why, ""});
    others_.keep(leased_units());
    const auto changed = broker_.changed();
    if (changed.empty()) {
      tell_stopped();
      if (!partitions_.has_work()) return true;
      partitions_.remove();
      continue;
    }
    std::vector<const Job*> rows;
    rows.reserve(changed.size());
    for (const JobId id : changed) rows.push_back(broker_.job(id));
    // A job with --requeue may have been started before a reboot, even if a power failure removed
    // that from the journal. Delete the old record of its start.
    for (const JobId id : started)
      if (const Job& job = *broker_.job(id); job.requeue || job.preemptions + job.retries > 0)
        launcher_.forget_start(id);
    std::map<std::string, std::string> values;
    if (auto record = partitions_.unsaved_record()) values[kMig] = *std::move(record);
    if (std::string record = aside_record(broker_.aside()); record != kept_aside_)
      values[kAside] = std::move(record);
    if (auto written = journal_.write(rows, {}, values); !written) {
      fail(written.error());
      return false;
    }
    if (values.contains(kMig)) partitions_.saved(values[kMig]);
    if (values.contains(kAside)) kept_aside_ = values[kAside];
    is_dirty_ = true;
    tell_stopped();
    for (const JobId id : std::exchange(to_notify_, {}))
      if (const Job* job = broker_.job(id); job != nullptr) tell_of_end(*job);
    changed_(changed);
    // Launch a job only after its start is in the journal. If not, the next broker would start it
    // again.
    for (const JobId id : started)
      if (broker_.job(id)->queued) launch_soon(id);
  }
  return false;
}

std::vector<std::string> Execution::leased_units() const {
  std::vector<std::string> units;
  for (const model::Holding& one : broker_.ledger().holdings)
    if (one.job != 0) units.push_back(one.unit);
  return units;
}

// Functions for requests of callers.

Result<JobId> Execution::submit(const broker::Submission& asked, const Peer& peer) {
  know_user(asked.job);
  if (asked.job.queued)
    if (auto kept = keep_launch(asked, peer); !kept) return std::move(kept).error();
  auto id = broker_.submit(asked.job, now());
  if (id && !asked.job.queued) watches_.watch(*id, asked.job.owners);
  return id;
}

Result<JobId> Execution::submit_array(const broker::Submission& asked,
                                      const model::ArrayRange& range, const Peer& peer) {
  know_user(asked.job);
  if (auto kept = keep_launch(asked, peer); !kept) return std::move(kept).error();
  return broker_.submit_array(asked.job, range, now());
}

/// Saves the launch record before the job, in a separate write. So the broker can continue if the
/// disk is too full for the record.
Status Execution::keep_launch(const broker::Submission& asked, const Peer& peer) {
  const JobId id = broker_.next_id();
  last_launch_ = {id, serve::launch_of(asked, peer)};
  // Set this even if the job is refused afterwards. If it were not set, the WAL would never be
  // shortened.
  is_dirty_ = true;
  return journal_.keep_launch(id, run::record_of(last_launch_.second));
}

Result<run::Launch> Execution::launch_of(const Job& job) {
  const JobId id = job.task ? job.task->array : job.id;
  if (last_launch_.first != id) {
    auto launch = run::launch_in(journal_.launch(id).value_or(""));
    if (!launch) return launch;
    last_launch_ = {id, *std::move(launch)};
  }
  return last_launch_.second;
}

Status Execution::cancel(JobId id, Caller caller) {
  const Job* job = broker_.job(id);
  const bool runs = job != nullptr && job->state == JobState::kRunning;
  if (!runs || (!caller.admin && caller.uid != job->uid)) return broker_.cancel(id, caller, now());
  stop(id, {JobState::kCancelled, "", caller.name});
  return Done{};
}

std::optional<Job> Execution::withdraw(JobId id, const Peer& peer) {
  const Job* job = broker_.job(id);
  const auto is_peer = [&](const model::ProcessId& one) { return one.pid == peer.pid; };
  if (job == nullptr || std::none_of(job->owners.begin(), job->owners.end(), is_peer))
    return std::nullopt;
  auto gone = broker_.withdraw(id, now());
  if (!gone) return std::nullopt;
  watches_.forget(id);
  if (auto written = journal_.write({}, {id}); !written) fail(written.error());
  is_dirty_ = true;
  settle();
  return gone;
}

Status Execution::edit(JobId id, const broker::Changes& changes, const Caller& caller) {
  auto edited = broker_.edit(id, changes, caller, now());
  const Job* job = broker_.job(id);
  if (edited && changes.memory_bytes && job != nullptr && job->state == JobState::kRunning)
    limit_memory(id);
  return edited;
}

Result<JobId> Execution::rerun(JobId id, const Caller& caller) {
  const Job* before = broker_.job(id);
  if (before == nullptr) return broker::no_such_job(id);
  if (before->uid != caller.uid) return broker::not_yours(*before);
  const auto launch = before->queued ? launch_of(*before) : Result<run::Launch>(no_launch(*before));
  if (!launch) return launch.error();
  Job job;
  job.uid = before->uid;
  job.user = before->user;
  job.name = before->name;
  job.request = before->request;
  job.command = before->command;
  job.queued = true;
  job.requeue = before->requeue;
  job.preemptible = before->preemptible;
  job.priority = before->priority;
  job.tier = before->tier;
  job.time_limit = before->time_limit;
  job.or_cpu_after = before->or_cpu_after;
  job.grace = before->grace;
  job.warning = before->warning;
  job.on_end = before->on_end;
  job.notify = before->notify;
  know_user(job);
  const JobId next = broker_.next_id();
  last_launch_ = {next, *launch};
  is_dirty_ = true;
  if (auto kept = journal_.keep_launch(next, run::record_of(last_launch_.second)); !kept)
    return std::move(kept).error();
  return broker_.submit(std::move(job), now());
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

Status Execution::drain(const broker::UnitCall& device, bool drained) {
  auto done = device.lent_to.empty() ? broker_.drain(device.unit, drained)
                                     : broker_.lend(device.unit, device.lent_to, drained);
  if (!done) return done;
  auto written = journal_.write(
      {}, {}, {{kDrained, Json(broker_.drained()).dump()}, {kLent, Json(broker_.lent()).dump()}});
  if (!written) fail(written.error());
  is_dirty_ = true;
  // The other scheduler opens its queue next, so this change must survive a power failure.
  if (written && drained && !device.lent_to.empty()) journal_.sync();
  return written;
}

void Execution::give_back(JobId id, const std::optional<model::Outcome>& outcome,
                          const model::JobUsage& usage,
                          const std::vector<model::ProcessId>& stuck) {
  set_aside(id, stuck);
  // A call without an outcome comes from the keeper (parent process) of a job whose `berth run` was
  // killed.
  if (!outcome && !stuck.empty()) {
    end_lost(id);
    return watches_.forget(id);
  }
  if (usage.cpu || usage.peak_memory_bytes) broker_.set_usage(id, usage);
  const bool is_good = outcome && outcome->kind == model::OutcomeClass::kOk;
  const auto how = how_stopped(id, {is_good ? JobState::kDone : JobState::kFailed, ""});
  end(id, how.state, outcome, how.why);
  watches_.forget(id);
}

Status Execution::set_next_try(JobId id, model::QueuedTry next) {
  return broker_.set_next_try(id, std::move(next));
}

Status Execution::keep_report(const Job& job, const std::string& stored) {
  if (job.queued || !model::has_ended(job.state))
    return Error{
        ErrorCode::kRefused, "E1083",
        text("a report of job {} is not accepted: the job still runs, or it was queued", job.id),
        fmt::format("berth report {}", job.id)};
  auto kept = launcher_.keep_report(job.id, stored, job.outcome);
  if (kept) retention_.forget(job.id);
  return kept;
}

watch::ReportedHangs Execution::hangs() {
  return hangs_.recent([this](JobId id) { return broker_.job(id); }, now().steady);
}

// Functions for the processes of jobs.

model::ToldToEnd Execution::how_stopped(JobId id, const model::ToldToEnd& else_so) {
  stopped_.remove(id);
  const Job* job = broker_.job(id);
  return job != nullptr && job->told_to_end ? *job->told_to_end : else_so;
}

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
  const std::string why(tr("the job's processes ended, but their exit status is unknown"));
  const auto how = how_stopped(id, {JobState::kLost, why});
  end(id, how.state, {}, how.why);
}

/// Keeps the devices of a job from other jobs while processes of this job are stuck in the kernel.
void Execution::set_aside(JobId id, std::vector<model::ProcessId> stuck) {
  std::erase_if(stuck, [](const model::ProcessId& one) { return !run::is_stuck(one); });
  if (stuck.empty() || broker_.job(id)->grants.empty()) return;
  const std::int64_t pid = stuck.front().pid;
  broker_.set_aside(id, stuck);
  notes_.push_back(
      text("the devices of job {} are set aside: its process {} waits in the kernel and "
           "cannot be killed",
           model::job_number(*broker_.job(id)), pid) +
      " (E0996)");
}

void Execution::end_aside() {
  if (broker_.aside().empty() || fault_) return;
  const auto lives = [](const model::ProcessId& one) {
    return start_ticks_of(one.pid) == one.start_ticks;
  };
  if (!broker_.end_aside(lives)) return;
  kept_aside_ = aside_record(broker_.aside());
  if (auto written = journal_.set_value(kAside, kept_aside_); !written) fail(written.error());
  is_dirty_ = true;
}

/// Called when the job's keeper has exited: reads the outcome that the keeper wrote. If the broker
/// died during a start, two keepers may have been started; then the first one still has the job.
void Execution::keeper_gone(const Job& job) {
  const JobId id = job.id;
  // When the machine shuts down, jobs get SIGTERM first, and this broker gets it a moment later. So
  // wait before treating the exit as the job's own end.
  if (!job.told_to_end && launcher_.was_told_to_end(id)) {
    constexpr milliseconds kMoment(1000);
    const auto since = told_by_others_.try_emplace(id, now().steady).first->second;
    if (now().steady - since < kMoment) return;
  }
  told_by_others_.erase(id);
  if (const auto outcome = launcher_.outcome(id)) {
    broker_.set_usage(id, launcher_.usage(id));
    set_aside(id, launcher_.stuck(id));
    const bool is_good = outcome->kind == model::OutcomeClass::kOk;
    auto how = how_stopped(id, {is_good ? JobState::kDone : JobState::kFailed, ""});
    // The broker wanted to end this job so that another job could start, but this job ended by
    // itself before. So it does not go back to the queue.
    if (how.state == JobState::kWaiting && !launcher_.was_told_to_end(id))
      how = {is_good ? JobState::kDone : JobState::kFailed, "", ""};
    const bool is_told = job.told_to_end && job.told_to_end->state != JobState::kWaiting;
    if (!is_told && !is_good && job.next_try && !launcher_.was_told_to_end(id) &&
        launcher_.wants_next_try(id))
      how = {JobState::kWaiting,
             text("try {} ended: {}", job.next_try->number - 1, job.next_try->after), ""};
    return end(id, how.state, outcome, how.why);
  }
  const auto keeper = launcher_.keeper(id);
  const bool lives = keeper && start_ticks_of(keeper->pid) == keeper->start_ticks;
  if (!keeper) {
    const std::string why =
        text("the job was not started: cannot write to {}", printable(launcher_.folder()));
    return end(id, JobState::kFailed, model::Outcome{}, why);
  }
  if (!lives) return end_lost(id);
  set_owners(id, {*keeper});
}

/// Launches one job at a time and handles calls in between, because an array may start a thousand
/// jobs at the same time.
void Execution::launch_soon(JobId id) {
  to_launch_.push_back(id);
  if (to_launch_.size() == 1) boost::asio::post(loop_, [this] { launch_next(); });
}

void Execution::launch_next() {
  if (to_launch_.empty() || fault_) return;
  launch(to_launch_.front());
  to_launch_.pop_front();
  settle();
  if (!to_launch_.empty()) boost::asio::post(loop_, [this] { launch_next(); });
}

/// Launches a queued job. If that fails, the job ends.
void Execution::launch(JobId id) {
  if (fence_ && broker_.job(id)->group.empty()) enclose(id);
  const Job& job = *broker_.job(id);
  const auto launch = launch_of(job);
  const auto keeper = launch ? launcher_.start_job(job, *launch, broker_.snapshot())
                             : Result<model::ProcessId>(launch.error());
  if (!keeper) return end(id, JobState::kFailed, model::Outcome{}, keeper.error().message);
  set_owners(id, {*keeper});
}

void Execution::stop(JobId id, const model::ToldToEnd& how) {
  if (std::erase(to_launch_, id) > 0) {
    end(id, how.state, {}, how.why);
    return;
  }
  const Job* job = broker_.job(id);
  // The job was being ended for another job and would have gone back to the queue. Now it was
  // cancelled or must end for good, so record that.
  if (stopped_.contains(id) && job != nullptr && job->told_to_end &&
      job->told_to_end->state == JobState::kWaiting && how.state != JobState::kWaiting)
    broker_.tell_to_end(id, how);
  if (stopped_.contains(id) || !watches_.signal(id, 0)) return;
  stopped_.add(id, now().steady);
  broker_.tell_to_end(id, how);
  to_tell_.push_back(id);
}

void Execution::tell_stopped() {
  for (const JobId id : std::exchange(to_warn_, {}))
    if (const Job* job = broker_.job(id); job != nullptr && job->warning)
      watches_.queue_to_keeper(id, job->warning->signal, run::kPassOn);
  for (const JobId id : std::exchange(to_tell_, {})) watches_.signal_keeper(id, SIGTERM);
}

// Functions that are called periodically.

void Execution::mind_time() {
  watches_.look_again();
  for (const auto& [id, since] : std::map(told_by_others_)) all_gone(id);
  stop_what_is_over_its_limit();
  end_aside();
  broker_.turn_to_cpu(now());
  // Jobs over their time limit are ended even if the journal cannot be written.
  if (!settle()) tell_stopped();
}

std::optional<policy::Instant> Execution::next_limit() const {
  std::optional<policy::Instant> next = broker_.next_pause_end();
  for (const JobRoot& root : watches_.roots()) {
    const policy::RunningJob* running = broker_.queue().running(root.job);
    if (running == nullptr || !running->time_limit || stopped_.contains(root.job)) continue;
    const Job& job = *broker_.job(root.job);
    policy::Instant at = running->started + *running->time_limit;
    if (job.warning && !job.warned) at -= job.warning->before;
    if (!next || at < *next) next = at;
  }
  return next;
}

void Execution::stop_what_is_over_its_limit() {
  const auto at = now();
  for (const JobRoot& root : watches_.roots()) {
    // Uses the queue's monotonic clock, because someone may change the wall clock.
    const policy::RunningJob* running = broker_.queue().running(root.job);
    if (running == nullptr || !running->time_limit) continue;
    const policy::Instant limit_at = running->started + *running->time_limit;
    if (at.steady < limit_at)
      warn_before_limit(*broker_.job(root.job), limit_at);
    else
      stop(root.job,
           {JobState::kFailed,
            text("the time limit of {} was exceeded",
                 show_duration(broker_.job(root.job)->time_limit.value_or(*running->time_limit))),
            ""});
  }
  stopped_.press(at.steady, broker_, watches_);
}

void Execution::warn_before_limit(const Job& job, policy::Instant limit_at) {
  if (!job.warning || job.warned || stopped_.contains(job.id) ||
      now().steady < limit_at - job.warning->before)
    return;
  broker_.set_warned(job.id);
  to_warn_.push_back(job.id);
}

std::vector<std::string> Execution::keep_fences() {
  auto notes = std::exchange(notes_, {});
  if (!fence_) return notes;
  auto more = fence_->keep();
  notes.insert(notes.end(), more.begin(), more.end());
  return notes;
}

void Execution::let_jobs_save() {
  static_cast<void>(serve::let_jobs_save(
      broker_.jobs(), [this](JobId id) { watches_.signal_keeper(id, SIGTERM); }));
}

void Execution::leave() const {
  if (fence_) fence_->leave();
}

// Writes the effects of a reboot on jobs and the clock record that reveals the reboot in one step.
// If the broker is killed before that, the next broker detects the reboot again.
void Execution::restore() {
  std::vector<JobId> unreadable;
  auto jobs = journal_.jobs(&unreadable);
  if (!jobs) {
    fail(jobs.error());
    return;
  }
  // Use the clock of the broker that wrote the record; mind_clock() detects later changes of the
  // machine's clock.
  const std::string clock = journal_.value(kClock).value_or("");
  const bool is_restarted = clock_.is_of_another_start(clock);
  clock_.resume(clock);
  adopt_unknown(*jobs, unreadable);
  const auto as_it_stands = is_restarted ? *jobs : std::vector<Job>();
  const auto back =
      is_restarted ? put_back(*jobs, launcher_, now().unix_milliseconds) : std::vector<JobId>();
  bring_back(*jobs);
  partitions_.resume(journal_.value(kMig).value_or("[]"), *jobs, is_restarted);
  take_over(*jobs, is_restarted);
  if (clock_.record() == clock) return;
  std::vector<const Job*> rows;
  if (is_restarted) {
    auto changed = broker_.changed();
    changed.insert(back.begin(), back.end());
    for (const JobId id : changed) rows.push_back(broker_.job(id));
  }
  if (auto written = journal_.write(rows, {}, {{kClock, clock_.record()}}); !written) {
    fail(written.error());
    if (!is_restarted) return;
    forget_all();
    bring_back(as_it_stands);
    is_ahead_ = false;
  }
}

/// Rebuilds jobs whose files exist but which a lost or damaged journal does not know.
void Execution::adopt_unknown(std::vector<Job>& jobs, const std::vector<JobId>& unreadable) {
  notices_.resume(journal_.value(kNotices).value_or("[]"));
  Mended mended;
  if (!std::exchange(has_told_of_salvage_, true) && journal_.salvaged()) {
    const auto& salvaged = *journal_.salvaged();
    mended = mend_stale(jobs, salvaged, launcher_, now().unix_milliseconds);
    for (Told& told : words_of(salvaged, mended.held))
      notice("E0945", std::move(told.sentence), std::move(told.hint));
  }
  std::set<JobId> known;
  for (const Job& job : jobs) known.insert(job.id);
  std::vector<JobId> forgotten;
  const Json ids = Json::parse(journal_.value(kForgotten).value_or("[]"), nullptr, false);
  for (const Json& id : ids)
    if (id.is_number_unsigned()) forgotten.push_back(id.get<JobId>());
  auto found = adopt_unknown_files(
      launcher_.folder(), [&](JobId id) { return known.contains(id); }, forgotten,
      now().unix_milliseconds);
  highest_ = std::max(found.highest,
                      static_cast<JobId>(std::max<std::int64_t>(
                          0, to_number(journal_.value(kHighest).value_or("0")).value_or(0))));
  // A newer Berth may be able to read these records. So they stay in the journal, and their job
  // numbers are not reused.
  if (!unreadable.empty()) {
    highest_ = std::max(highest_, unreadable.back());
    notice("E0945",
           text("the records of these jobs are not readable: {}", list_of_jobs(unreadable)),
           "berth --version");
  }
  const std::string& folder = found.folder.empty() ? launcher_.folder() : found.folder;
  for (std::string& sentence : words_of(found))
    notice("E0944", std::move(sentence), "ls " + printable(folder));
  if (found.jobs.empty() && found.aside.empty() && mended.changed.empty() && !journal_.salvaged())
    return;
  std::vector<const Job*> rows;
  rows.reserve(found.jobs.size() + mended.changed.size());
  for (const Job& job : found.jobs) rows.push_back(&job);
  for (const Job& job : jobs)
    if (mended.changed.contains(job.id)) rows.push_back(&job);
  // If this write fails, the next broker finds the files again.
  if (auto written = journal_.write(
          rows, {}, {{kHighest, std::to_string(highest_)}, {kNotices, notices_.record()}});
      !written)
    fail(written.error());
  jobs.insert(jobs.end(), found.jobs.begin(), found.jobs.end());
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.id < b.id; });
}

void Execution::bring_back(const std::vector<Job>& jobs) {
  restore_drained();
  kept_aside_ = journal_.value(kAside).value_or("[]");
  broker_.restore_aside(aside_in(kept_aside_));
  past_use_.resume(journal_.value(kShares).value_or("{}"));
  for (const auto& [uid, seconds] :
       past_use_.left(now().unix_milliseconds, options_.settings.rules.half_life))
    broker_.set_ahead(uid, seconds, now());
  for (const bool runs : {true, false})
    for (const Job& job : jobs)
      if ((job.state == JobState::kRunning) == runs) {
        know_user(job);
        broker_.restore(job, now());
      }
  broker_.skip_numbers(highest_);
}

void Execution::take_over(const std::vector<Job>& jobs, bool is_restarted) {
  std::set<JobId> running;
  for (const Job& job : jobs) {
    // A process that waits for a lease may have exited while no broker was running.
    if (!job.queued && !model::has_ended(job.state)) watches_.watch(job.id, job.owners);
    if (job.state != JobState::kRunning) continue;
    running.insert(job.id);
    if (fence_ && fence_->has_group(job.id))
      enclose(job.id);
    else if (!job.group.empty())
      broker_.set_access(job.id, model::Access::kVariable, "");
    find_again(job, is_restarted);
  }
  // These locks are held by the jobs' keepers, not by another broker.
  const auto leased = leased_units();
  others_.keep(leased);
  others_.find_earlier(broker_.units(), leased);
  if (fence_) clean_up_groups(running);
}

void Execution::clean_up_groups(const std::set<JobId>& running) {
  auto unknown = fence_->clean_up([&](JobId id) -> std::optional<bool> {
    if (running.contains(id)) return true;
    return broker_.job(id) != nullptr ? std::optional(false) : std::nullopt;
  });
  if (unknown.empty()) return;
  std::sort(unknown.begin(), unknown.end());
  broker_.skip_numbers(unknown.back());
  notes_.push_back(left_alone(unknown));
}

void Execution::restore_drained() {
  std::vector<std::string> units;
  std::map<std::string, std::string> lent;
  for (const Json& unit : Json::parse(journal_.value(kDrained).value_or("[]"), nullptr, false))
    if (unit.is_string()) units.push_back(unit.get<std::string>());
  const Json loans = Json::parse(journal_.value(kLent).value_or("{}"), nullptr, false);
  if (loans.is_object())
    for (const auto& [unit, to] : loans.items())
      if (to.is_string()) lent[unit] = to.get<std::string>();
  broker_.restore_drained(std::move(units), std::move(lent));
}

void Execution::find_again(const Job& job, bool is_restarted) {
  // The last writes before the reboot may be lost, so the job may have run. Do not start it twice.
  if (is_restarted && job.queued) {
    const auto outcome = outcome_before_restart(job, launcher_);
    if (outcome) broker_.set_usage(job.id, launcher_.usage(job.id));
    const bool is_good = outcome && outcome->kind == model::OutcomeClass::kOk;
    const std::string why = outcome ? "" : text("the machine was restarted while it ran");
    const auto how = how_stopped(job.id, {!outcome  ? JobState::kLost
                                          : is_good ? JobState::kDone
                                                    : JobState::kFailed,
                                          why});
    return end(job.id, how.state, outcome, how.why);
  }
  // According to the journal, the job runs. The job folder shows whether it was really started.
  const auto keeper = job.queued ? launcher_.keeper(job.id) : std::nullopt;
  if (keeper)
    set_owners(job.id, {*keeper});
  else if (job.queued)
    launch_soon(job.id);
  if (job.told_to_end) stop(job.id, *job.told_to_end);
}

// Functions for a journal that cannot be written.

namespace {

std::string words_of_fault(const Error& fault) {
  return text("{}: no job is accepted or started until this is fixed", fault.message);
}

}  // namespace

std::vector<Error> Execution::notices() const {
  std::vector<Error> all = notices_.of_last_day(now().unix_milliseconds);
  if (fault_)
    all.insert(all.begin(), {fault_->code, fault_->id, words_of_fault(*fault_), fault_->hint});
  return all;
}

/// Adds a notice, which appears in the broker's log and when users list jobs.
void Execution::notice(std::string id, std::string sentence, std::string hint) {
  notes_.push_back(sentence);
  notices_.add(now().unix_milliseconds, std::move(id), std::move(sentence), std::move(hint));
}

void Execution::fail(Error error) {
  if (!fault_) notes_.push_back(words_of_fault(error));
  fault_ = std::move(error);
  is_ahead_ = true;
}

void Execution::forget_all() {
  model::Snapshot machine = broker_.snapshot();
  broker_ = broker::Broker(options_.settings.rules);
  broker_.see(std::move(machine), {});
  known_users_.clear();
  to_launch_.clear();
  to_tell_.clear();
  to_warn_.clear();
  stopped_.clear();
  told_by_others_.clear();
  for (const JobRoot& root : watches_.roots()) watches_.forget(root.job);
}

void Execution::go_back() {
  if (!std::exchange(is_ahead_, false)) return;
  forget_all();
  restore();
}

bool Execution::retry() {
  if (!fault_) return true;
  const auto written = journal_.set_value(kTried, std::to_string(now().unix_milliseconds));
  if (!written) return false;
  fault_.reset();
  notes_.emplace_back(tr("the journal can be written again"));
  // Return to the last written state, and look again for jobs that ended in the meantime. This time
  // their end can be written.
  is_ahead_ = true;
  go_back();
  return !fault_;
}

// More functions that are called periodically.

void Execution::keep_shares() {
  if (fault_) return;
  PastUse::ByUser use;
  for (const std::uint32_t uid : known_users_) use[uid] = broker_.ahead(uid, now());
  if (!past_use_.keep(use, now().unix_milliseconds)) return;
  if (auto written = journal_.set_value(kShares, past_use_.record()); !written)
    fail(written.error());
  is_dirty_ = true;
}

void Execution::limit_output() {
  for (const JobRoot& root : watches_.roots()) {
    const Job* job = broker_.job(root.job);
    if (job == nullptr || !job->queued) continue;
    if (std::string note = retention_.limit_running(root.job); !note.empty())
      notes_.push_back(std::move(note));
  }
}

void Execution::mind_clock() {
  const std::int64_t by = clock_.was_set_by();
  if (by == 0 || !settle()) return;
  const std::int64_t from = clock_.at_start(), to = clock_.now();
  broker_.move_times(from, to, by);
  past_use_.move_time(from, to, by);
  clock_.follow();
  const auto changed = broker_.changed();
  std::vector<const Job*> rows;
  rows.reserve(changed.size());
  for (const JobId id : changed) rows.push_back(broker_.job(id));
  // Write all times in one step. If only some were written, the next broker would move those times
  // twice.
  if (auto written =
          journal_.write(rows, {}, {{kClock, clock_.record()}, {kShares, past_use_.record()}});
      !written) {
    fail(written.error());
    return;
  }
  is_dirty_ = true;
  const std::string much = show_duration(milliseconds(std::abs(by)));
  notes_.push_back(
      by > 0
          ? text("the clock was set forward by {}: the recorded times of jobs were adjusted", much)
          : text("the clock was set back by {}: the recorded times of jobs were adjusted", much));
  changed_(changed);
}

void Execution::forget_old() {
  // The clock was just set, so the age may be wrong.
  const std::int64_t too_old =
      clock_.was_set_lately() ? 0 : now().unix_milliseconds - options_.settings.keep.count();
  const auto gone = broker_.forget_ended_before(
      std::max(too_old, retention_.too_much_output_before(broker_.jobs())),
      Retention::too_many_before(broker_.jobs()));
  if (gone.empty()) return;
  for (const JobId id : gone) retention_.forget(id);
  // If the broker dies before it deletes the files, the next broker deletes them.
  if (auto written = journal_.write({}, gone, {{kForgotten, Json(gone).dump()}}); !written) {
    fail(written.error());
    return;
  }
  for (const JobId id : gone) launcher_.forget(id);
  is_dirty_ = true;
}

}  // namespace berth::serve
