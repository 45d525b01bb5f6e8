#include "serve/execution.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "run/launch_record.hpp"
#include "system/runtime_folder.hpp"

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
    : loop_(loop),
      options_(options),
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

/// By the kernel where that can be done, else by variables.
void Execution::enclose(JobId id) {
  if (!fence_) return;
  const Job& job = *broker_.job(id);
  auto group = fence_->enclose(job, broker_.snapshot());
  if (!group) {
    notes_.push_back(text("job {} is kept from other devices by variables only: {}",
                          model::job_number(job), group.error().message));
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
  // Where no broker was there when it ended, its file knows the time.
  constexpr std::int64_t kWhile = 1000;
  broker::Now at = now();
  if (const auto ended = outcome ? launcher_.ended_at(id) : std::nullopt;
      ended && *ended < at.unix_milliseconds - kWhile)
    at.unix_milliseconds =
        std::max(*ended, broker_.job(id)->started_unix_milliseconds.value_or(*ended));
  broker_.end(id, state, outcome, std::move(why), at);
}

void Execution::know_user(const Job& job) {
  if (!known_users_.insert(job.uid).second) return;
  const auto found = options_.settings.users.find(job.user);
  broker_.set_user(
      job.uid, found == options_.settings.users.end() ? options_.settings.everyone : found->second);
}

bool Execution::settle() {
  while (!fault_) {
    if (broker_.queue().waiting_count() > 0) broker_.set_elsewhere(units_of_others());
    const auto started = broker_.start_what_fits(now());
    for (const JobId id : started)
      if (!broker_.job(id)->queued) enclose(id);  // others when they are launched
    locks_.keep(leased_units());
    const auto changed = broker_.changed();
    if (changed.empty()) {
      tell_stopped();
      return true;
    }
    std::vector<const Job*> rows;
    rows.reserve(changed.size());
    for (const JobId id : changed) rows.push_back(broker_.job(id));
    // What may run twice can have been started before the machine was, also where the journal lost
    // that with the power.
    for (const JobId id : started)
      if (broker_.job(id)->requeue) launcher_.forget_start(id);
    if (auto written = journal_.write(rows); !written) {
      fail(written.error());
      return false;
    }
    is_dirty_ = true;
    tell_stopped();
    changed_(changed);
    // Only what is written down may run: a broker that follows this one would start it again.
    for (const JobId id : started)
      if (broker_.job(id)->queued) launch_soon(id);
  }
  return false;
}

bool Execution::gives_way() const {
  return options_.gives_way && system::system_broker_expected_for().count() > 0;
}

/// All of them, where the broker of all users serves: two would give away the same.
std::vector<std::string> Execution::units_of_others() {
  if (gives_way()) return broker_.units();
  if (options_.for_all) {
    std::erase_if(before_us_, [this](const std::string& unit) {
      return !system::holder_of(system::lock_file(options_.lock_folder, unit));
    });
    return before_us_;
  }
  return locks_.take(broker_.units());
}

std::vector<std::string> Execution::leased_units() const {
  std::vector<std::string> units;
  for (const model::Holding& one : broker_.ledger().holdings)
    if (one.job != 0) units.push_back(one.unit);
  return units;
}

// What callers may ask for.

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

/// Before the job itself, and not with it: where the disk is too full for it, the broker goes on.
Status Execution::keep_launch(const broker::Submission& asked, const Peer& peer) {
  const JobId id = broker_.next_id();
  last_launch_ = {id, serve::launch_of(asked, peer)};
  is_dirty_ = true;  // also where the job is then refused: the journal's log must not grow for ever
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

Status Execution::drain(const std::string& unit, bool drained) {
  if (auto done = broker_.drain(unit, drained); !done) return done;
  auto written = journal_.set_value(kDrained, nlohmann::json(broker_.drained()).dump());
  if (!written) fail(written.error());
  is_dirty_ = true;
  return written;
}

void Execution::give_back(JobId id, const std::optional<model::Outcome>& outcome) {
  const bool is_good = outcome && outcome->kind == model::OutcomeClass::kOk;
  const auto how = how_stopped(id, {is_good ? JobState::kDone : JobState::kFailed, ""});
  end(id, how.state, outcome, how.why);
  watches_.forget(id);
}

// The processes of jobs.

model::ToldToEnd Execution::how_stopped(JobId id, const model::ToldToEnd& else_so) {
  stopped_.erase(id);
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
  const std::string why(tr("its processes are gone, and nobody said how they ended"));
  const auto how = how_stopped(id, {JobState::kLost, why});
  end(id, how.state, {}, how.why);
}

/// What it wrote last, or who kept the job in its place (two may be started for one job where the
/// broker died in between; the first keeps it).
void Execution::keeper_gone(const Job& job) {
  const JobId id = job.id;
  // A machine that stops tells us to end as well, a moment later; until then it is not known
  // whether that was an end of the job's own.
  if (!job.told_to_end && launcher_.was_told_to_end(id)) {
    constexpr milliseconds kMoment(1000);
    const auto since = told_by_others_.try_emplace(id, now().steady).first->second;
    if (now().steady - since < kMoment) return;
  }
  told_by_others_.erase(id);
  if (const auto outcome = launcher_.outcome(id)) {
    const bool is_good = outcome->kind == model::OutcomeClass::kOk;
    const auto how = how_stopped(id, {is_good ? JobState::kDone : JobState::kFailed, ""});
    return end(id, how.state, outcome, how.why);
  }
  const auto keeper = launcher_.keeper(id);
  const bool lives = keeper && start_ticks_of(keeper->pid) == keeper->start_ticks;
  if (!keeper) {
    const std::string why =
        text("it was not started: nothing could be written in {}", printable(launcher_.folder()));
    return end(id, JobState::kFailed, model::Outcome{}, why);
  }
  if (!lives) return end_lost(id);
  set_owners(id, {*keeper});
}

/// One after the other, with others' calls in between: an array starts a thousand at once.
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

/// Starts what the broker starts itself; what cannot start has ended.
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
  if (stopped_.contains(id) || !watches_.signal(id, 0)) return;
  stopped_.emplace(id, Stopped{now().steady});
  broker_.tell_to_end(id, how);
  to_tell_.push_back(id);
}

void Execution::tell_stopped() {
  for (const JobId id : std::exchange(to_tell_, {})) watches_.signal(id, SIGTERM);
}

/// What was told to end and did not. A keeper ends in order all that it has; the front of a job in
/// a terminal only passes the signal on, so its keeper is told as well. At last they are killed,
/// one after the other: who is left cleans up.
void Execution::press(policy::Instant at) {
  constexpr milliseconds kGrace(300);
  constexpr milliseconds kPatience(10'000);
  for (auto& [id, one] : stopped_) {
    if (at - one.since < (one.pressed == 0 ? kGrace : one.pressed * kPatience)) continue;
    if (one.pressed++ == 0)
      watches_.signal_others(id, SIGTERM);
    else
      watches_.signal(id, SIGKILL);
  }
}

// What time brings.

void Execution::mind_time() {
  watches_.look_again();
  for (const auto& [id, since] : std::map(told_by_others_)) all_gone(id);
  stop_what_is_over_its_limit();
  broker_.turn_to_cpu(now());
  // A limit holds also where nothing can be written down.
  if (!settle()) tell_stopped();
}

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
  press(at.steady);
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

}  // namespace berth::serve
