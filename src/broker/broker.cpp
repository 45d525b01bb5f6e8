#include "broker/broker.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "model/cpu_list.hpp"
#include "policy/candidates.hpp"
#include "policy/demand.hpp"
#include "policy/placement.hpp"

namespace berth::broker {
namespace {

/// The unit id of a placement's device or partition.
std::string unit_of(const model::Snapshot& snapshot, int index, const std::string& partition) {
  if (!partition.empty()) return partition;
  for (const model::Device& device : snapshot.devices)
    if (device.index == index) return policy::unit_id(device, nullptr);
  return "";
}

}  // namespace

Error not_yours(const Job& job) {
  return {ErrorCode::kPermissionDenied, "E0902",
          text("job {} is another user's", model::job_number(job)), "berth jobs --mine"};
}

Error no_such_job(JobId id) {
  return {ErrorCode::kNotFound, "E0901", text("there is no job {}", id), "berth jobs"};
}

Broker::Broker(policy::QueueRules rules) : queue_(policy::Pool{}, rules) {
  ledger_.kept = true;
}

// Functions about the machine and its units.

void Broker::see(model::Snapshot snapshot, std::vector<model::JobProcess> processes) {
  snapshot_ = std::move(snapshot);
  ledger_.processes = std::move(processes);
  std::sort(ledger_.processes.begin(), ledger_.processes.end(),
            [](const model::JobProcess& a, const model::JobProcess& b) { return a.pid < b.pid; });
  units_ = policy::units_of(snapshot_, std::move(units_), ledger_);
  reckon_machine();
  reconsider();
}

void Broker::set_mig(std::vector<model::MigRoom> rooms, std::vector<std::string> made) {
  ledger_.rooms = std::move(rooms);
  ledger_.made = std::move(made);
  units_ = policy::units_of(snapshot_, std::move(units_), ledger_);
  reckon_machine();
  reconsider();
}

std::string Broker::needs_partition(JobId id) const {
  const Job* job = this->job(id);
  if (job == nullptr || job->state != JobState::kRunning || job->grants.size() != 1) return "";
  const std::string& unit = job->grants.front().unit;
  const auto is_room = [&](const model::MigRoom& one) { return one.device == unit; };
  return std::any_of(ledger_.rooms.begin(), ledger_.rooms.end(), is_room) ? unit : "";
}

// The partition's memory is a part of the GPU's memory. So the queue continues to count the job's
// memory on that GPU.
void Broker::set_partition(JobId id, const model::Partition& partition) {
  Job& job = jobs_.at(id);
  model::Grant& grant = job.grants.front();
  for (model::Device& device : snapshot_.devices) {
    if (device.uuid != grant.unit) continue;
    // A new partition at the position of a removed partition has the same uuid. The snapshot may
    // still show the removed partition.
    std::erase_if(device.partitions,
                  [&](const model::Partition& one) { return one.uuid == partition.uuid; });
    device.partitions.push_back(partition);
  }
  for (model::Holding& one : ledger_.holdings)
    if (one.job == id) one.unit = partition.uuid;
  grant.unit = partition.uuid;
  grant.made = true;
  changed_.insert(id);
}

void Broker::put_back(JobId id, Now now) {
  Job& job = jobs_.at(id);
  const policy::Demand demand = queue_.running(id)->demand;
  queue_.ended(id, now.steady);
  give_lease_back(job);
  job.grants.clear();
  job.cpus.clear();
  job.affinity.clear();
  job.state = JobState::kWaiting;
  job.started_unix_milliseconds.reset();
  const std::int64_t since =
      job.requeued_unix_milliseconds.value_or(job.submitted_unix_milliseconds);
  pending_[id] = {demand, now.steady - std::chrono::milliseconds(std::max<std::int64_t>(
                                           0, now.unix_milliseconds - since))};
  if (job.or_cpu_after) may_turn_.insert(id);
  passed_over_.insert(id);
}

/// Puts the jobs that could not be placed back into the queue, because they may fit now.
void Broker::reconsider() {
  for (const JobId id : std::exchange(passed_over_, {})) {
    const Job& job = jobs_.at(id);
    if (job.state == JobState::kWaiting) stand_in_line(job);
  }
}

void Broker::set_user(std::uint32_t uid, const policy::UserRules& rules) {
  queue_.set_user(static_cast<int>(uid), rules);
}

double Broker::ahead(std::uint32_t uid, Now now) const {
  return queue_.shares().ahead(static_cast<int>(uid), now.steady);
}

void Broker::set_ahead(std::uint32_t uid, double seconds, Now now) {
  queue_.set_ahead(static_cast<int>(uid), seconds, now.steady);
}

Status Broker::known(const std::string& unit) const {
  if (std::find(units_.begin(), units_.end(), unit) == units_.end())
    return Error{ErrorCode::kNotFound, "E0413", text("there is no device {}", unit), "berth ls"};
  return Done{};
}

namespace {

Error lent_to(const std::string& key) {
  const model::Scheduler* known = model::scheduler_of(key);
  return {ErrorCode::kUnavailable, "E1014",
          text("the device is lent to {}, which may give it to its own jobs at any time",
               known != nullptr ? known->title : key),
          fmt::format("sudo berth {} reclaim", known != nullptr ? known->verb : key)};
}

}  // namespace

Status Broker::drain(const std::string& unit, bool drained) {
  if (auto is_known = known(unit); !is_known) return is_known;
  if (const auto lent = lent_.find(unit); !drained && lent != lent_.end())
    return lent_to(lent->second);
  std::erase(drained_, unit);
  if (drained) drained_.push_back(unit);
  close_drained();
  return Done{};
}

Status Broker::lend(const std::string& unit, const std::string& to, bool is_lent) {
  if (auto is_known = known(unit); !is_known) return is_known;
  // Only the scheduler that borrowed the unit may return it. It stops its own queue before that.
  if (const auto lent = lent_.find(unit); lent != lent_.end() && lent->second != to)
    return lent_to(lent->second);
  if (is_lent)
    lent_[unit] = to;
  else
    lent_.erase(unit);
  close_drained();
  return Done{};
}

void Broker::restore_drained(std::vector<std::string> units,
                             std::map<std::string, std::string> lent) {
  drained_ = std::move(units);
  lent_ = std::move(lent);
  close_drained();
}

/// Lists each unit (GPU or MIG partition) once, in the order in which the machine lists them.
std::vector<std::string> Broker::drained_or_lent() const {
  std::vector<std::string> all;
  for (const std::string& unit : units_)
    if (lent_.contains(unit) ||
        std::find(drained_.begin(), drained_.end(), unit) != drained_.end() ||
        std::any_of(aside_.begin(), aside_.end(),
                    [&](const model::AsideUnit& one) { return one.unit == unit; }))
      all.push_back(unit);
  return all;
}

model::ClosedUnits Broker::closed() const {
  model::ClosedUnits all{elsewhere_, drained_, {}, aside_};
  for (const std::string& unit : units_)
    if (const auto lent = lent_.find(unit); lent != lent_.end())
      all.lent.push_back({unit, lent->second});
  return all;
}

void Broker::close_drained() {
  const auto place = [&](const std::string& unit) {
    return std::find(units_.begin(), units_.end(), unit) - units_.begin();
  };
  std::sort(drained_.begin(), drained_.end(),
            [&](const std::string& a, const std::string& b) { return place(a) < place(b); });
  std::erase_if(ledger_.holdings,
                [&](const model::Holding& one) { return one.job == 0 && one.user.empty(); });
  // Job 0 does not exist. A holding of job 0 makes place() treat the unit as taken, so that no job
  // gets it.
  for (const std::string& unit : units_)
    if (lent_.contains(unit) || std::find(drained_.begin(), drained_.end(), unit) != drained_.end())
      ledger_.holdings.push_back({0, "", unit, 0});
  reckon_machine();
  reconsider();
}

void Broker::set_aside(JobId id, const std::vector<model::ProcessId>& processes) {
  Job& job = jobs_.at(id);
  job.stuck = processes;
  for (const model::Grant& grant : job.grants) {
    model::AsideUnit& one =
        aside_.emplace_back(model::AsideUnit{grant.unit, job.user, number(id), id, {}});
    for (const model::ProcessId& process : processes)
      one.processes.emplace_back(process.pid, process.start_ticks);
  }
  changed_.insert(id);
  close_aside();
}

bool Broker::end_aside(const std::function<bool(const model::ProcessId&)>& lives) {
  const auto is_gone = [&](const model::AsideUnit& one) {
    return std::none_of(one.processes.begin(), one.processes.end(), [&](const auto& process) {
      return lives(model::ProcessId{process.first, process.second});
    });
  };
  if (std::erase_if(aside_, is_gone) == 0) return false;
  close_aside();
  return true;
}

void Broker::restore_aside(std::vector<model::AsideUnit> aside) {
  aside_ = std::move(aside);
  close_aside();
}

void Broker::close_aside() {
  std::erase_if(ledger_.holdings, [](const model::Holding& one) { return one.stuck_pid != 0; });
  for (const model::AsideUnit& one : aside_)
    ledger_.holdings.push_back(
        {one.job, one.user, one.unit, 0, 0, one.number, one.processes.front().first});
  reckon_machine();
  reconsider();
}

void Broker::set_elsewhere(std::vector<std::string> units) {
  if (units == elsewhere_) return;
  elsewhere_ = std::move(units);
  const auto is_elsewhere = [](const model::Holding& one) {
    return one.job == 0 && !one.user.empty();
  };
  std::erase_if(ledger_.holdings, is_elsewhere);
  for (const std::string& unit : elsewhere_)
    ledger_.holdings.push_back({0, std::string(model::kAnotherBroker), unit, 0});
  reckon_machine();
  reconsider();
}

void Broker::reckon_machine() {
  queue_.set_machine(policy::pool_of(snapshot_, ledger_, units_, drained_or_lent(), elsewhere_));
}

// Functions that put jobs into the queue or take them out.

bool Broker::is_over(JobId job_or_array) const {
  const Job* found = job(job_or_array);
  return found == nullptr ? arrays_.is_over(job_or_array) : model::has_ended(found->state);
}

bool Broker::waits_for_another(const Job& job) const {
  for (const auto* list : {&job.after, &job.after_any, &job.after_not_ok})
    for (const JobId other : *list)
      if (!is_over(other)) return true;
  return false;
}

bool Broker::went_well(JobId job_or_array) const {
  const Job* found = job(job_or_array);
  return found == nullptr ? arrays_.is_good(job_or_array) : found->state == JobState::kDone;
}

std::string Broker::never_after(const Job& job) const {
  for (const JobId other : job.after)
    if (is_known(other) && is_over(other) && !went_well(other))
      return text("job {}, which it depends on, did not succeed", number(other));
  for (const JobId other : job.after_not_ok)
    if (is_known(other) && is_over(other) && went_well(other))
      return text("job {} succeeded, but this job starts only after its failure", number(other));
  return "";
}

/// Registers the job as a follower of each unfinished job that it depends on.
void Broker::follow_all(const Job& job) {
  for (const auto* list : {&job.after, &job.after_any, &job.after_not_ok})
    for (const JobId other : *list)
      if (!is_over(other)) followers_[other].insert(job.id);
}

bool Broker::is_known(JobId job_or_array) const {
  return job(job_or_array) != nullptr || !arrays_.jobs(job_or_array).empty();
}

void Broker::stand_in_line(const Job& job) {
  const Pending& pending = pending_.at(job.id);
  if (pending.pauses) {
    paused_.insert(job.id);
    return;
  }
  if (job.task && !arrays_.enter(job)) return;
  queue_.add({job.id, user_of(job), pending.demand, model::time_left(job),
              job.preemptible ? policy::kPreemptibleTier : job.tier, job.priority, pending.queued,
              job.place});
}

/// Call it when the job has left the queue, has ended, or will not enter the queue. Then another
/// job of its array may enter.
void Broker::leave_line(const Job& job, Now now) {
  queue_.remove(job.id, now.steady);
  passed_over_.erase(job.id);
  paused_.erase(job.id);
  if (!job.task) return;
  if (const auto next = arrays_.leave(job)) stand_in_line(jobs_.at(*next));
}

void Broker::end_pauses(policy::Instant looked) {
  for (const JobId id : std::set(paused_)) {
    const Job& job = jobs_.at(id);
    if (looked < *pauses_until(id)) continue;
    pending_.at(id).pauses = false;
    paused_.erase(id);
    if (job.state == JobState::kWaiting && !waits_for_another(job)) stand_in_line(job);
  }
}

std::optional<policy::Instant> Broker::pauses_until(JobId id) const {
  if (!paused_.contains(id)) return std::nullopt;
  return pending_.at(id).queued + jobs_.at(id).pause;
}

std::optional<policy::Instant> Broker::next_pause_end() const {
  std::optional<policy::Instant> next;
  for (const JobId id : paused_)
    if (const auto at = pauses_until(id); !next || *at < *next) next = at;
  return next;
}

std::string Broker::number(JobId job_or_array) const {
  const Job* found = job(job_or_array);
  return found == nullptr ? std::to_string(job_or_array) : model::job_number(*found);
}

void Broker::turn_to_cpu(Now now) {
  for (auto at = may_turn_.begin(); at != may_turn_.end();) {
    Job& job = jobs_.at(*at);
    const auto pending = pending_.find(job.id);
    if (pending == pending_.end()) {  // the job is running or has ended
      at = may_turn_.erase(at);
      continue;
    }
    const JobId id = *at++;
    if (queue_.waiting(id) == nullptr || now.steady - pending->second.queued < *job.or_cpu_after)
      continue;
    model::Request before = std::exchange(job.request, policy::on_cpu(job.request));
    const auto demand = demand_of(job);
    if (!demand || !policy::fit(queue_.pool(), *demand)) {
      job.request = std::move(before);
      continue;
    }
    queue_.remove(id, now.steady);
    pending->second.demand = *demand;
    stand_in_line(job);
    may_turn_.erase(id);
    changed_.insert(id);
  }
}

void Broker::restore(const Job& job, Now now) {
  next_ = std::max(next_, job.id + 1);
  Job& kept = jobs_.insert_or_assign(job.id, job).first->second;
  all_jobs_.clear();
  if (kept.task) arrays_.add(kept);
  remember_key(kept);
  if (model::has_ended(kept.state)) return;
  user_load_.add(kept);
  auto demand = demand_of(kept);
  follow_all(kept);
  const auto steady = [&](std::int64_t then) {
    return now.steady -
           std::chrono::milliseconds(std::max<std::int64_t>(0, now.unix_milliseconds - then));
  };
  if (kept.state == JobState::kRunning) {
    for (const model::Grant& grant : kept.grants)
      if (std::find(units_.begin(), units_.end(), grant.unit) == units_.end())
        units_.push_back(grant.unit);
    reckon_machine();
    policy::Demand has;
    has.devices = static_cast<int>(kept.grants.size());
    has.memory_bytes = kept.grants.empty() ? 0 : kept.grants.front().memory_bytes;
    has.share_permille = kept.grants.empty() ? 0 : kept.grants.front().share_permille;
    has.cpus = takes_a_core(kept, has.devices) ? 1 : static_cast<int>(kept.cpus.size());
    queue_.adopt({kept.id, user_of(kept), has, positions_of(kept), model::time_left(kept),
                  steady(kept.started_unix_milliseconds.value_or(now.unix_milliseconds)),
                  kept.preemptible, kept.told_to_end.has_value()});
    take_lease(kept);
    return;
  }
  if (!demand) {
    // The machine has changed and can never run this job. So the job fails instead of waiting.
    kept.state = JobState::kFailed;
    kept.why = demand.error().message;
    kept.ended_unix_milliseconds = now.unix_milliseconds;
    changed_.insert(kept.id);
    ended(kept, now);
    return;
  }
  const policy::Instant queued =
      steady(kept.requeued_unix_milliseconds.value_or(kept.submitted_unix_milliseconds));
  pending_[kept.id] = {*demand, queued, now.steady < queued + kept.pause};
  if (kept.or_cpu_after && demand->devices > 0) may_turn_.insert(kept.id);
  if (kept.state == JobState::kWaiting && !waits_for_another(kept)) stand_in_line(kept);
}

Result<Job*> Broker::changeable(JobId id, Caller caller) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return no_such_job(id);
  Job& job = found->second;
  if (job.uid != caller.uid && !caller.admin) return not_yours(job);
  if (job.state != JobState::kWaiting && job.state != JobState::kHeld)
    return Error{ErrorCode::kInvalidArgument, "E0903",
                 job.state == JobState::kRunning ? text("job {} runs", model::job_number(job))
                                                 : text("job {} has ended", model::job_number(job)),
                 "berth jobs"};
  return &job;
}

Status Broker::cancel(JobId id, Caller caller, Now now) {
  const auto found = changeable(id, caller);
  if (!found) return found.error();
  Job& job = **found;
  pending_.erase(id);
  job.state = JobState::kCancelled;
  job.ended_by = caller.name;
  job.ended_unix_milliseconds = now.unix_milliseconds;
  changed_.insert(id);
  ended(job, now);
  return Done{};
}

Status Broker::hold(JobId id, bool held, Caller caller, Now now) {
  const auto found = changeable(id, caller);
  if (!found) return found.error();
  Job& job = **found;
  if ((job.state == JobState::kHeld) == held) return Done{};
  job.state = held ? JobState::kHeld : JobState::kWaiting;
  changed_.insert(id);
  if (held) {
    leave_line(job, now);
  } else {
    pending_.at(id).queued = now.steady;
    // The user released the job, so it no longer waits for the pause before its next try to end.
    pending_.at(id).pauses = false;
    paused_.erase(id);
    job.pause = std::chrono::milliseconds(0);
    if (!waits_for_another(job)) stand_in_line(job);
  }
  return Done{};
}

/// Call this when the job has reached a final state.
void Broker::ended(const Job& job, Now now) {
  user_load_.remove(job);
  leave_line(job, now);
  over_.push_back(job.id);
  if (job.task && arrays_.ended(job)) over_.push_back(job.task->array);
  // When a job is cancelled, jobs that depend on it may be cancelled too, and so on. Such a chain
  // may be long, so a loop processes it instead of recursion.
  if (std::exchange(following_, true)) return;
  for (std::size_t i = 0; i < over_.size(); ++i) follow(over_[i], now);
  over_.clear();
  following_ = false;
}

/// Call it when job or array `over` has ended. Jobs that waited only for it enter the queue. Jobs
/// that can now never start are cancelled.
void Broker::follow(JobId over, Now now) {
  const auto found = followers_.find(over);
  if (found == followers_.end()) return;
  const std::set<JobId> waiting = std::move(found->second);
  followers_.erase(found);
  for (const JobId id : waiting) {
    Job& job = jobs_.at(id);
    if (job.state != JobState::kWaiting && job.state != JobState::kHeld) continue;
    if (std::string never = never_after(job); !never.empty()) {
      job.why = std::move(never);
      static_cast<void>(cancel(id, {job.uid, true, ""}, now));
    } else if (job.state == JobState::kWaiting && !waits_for_another(job)) {
      stand_in_line(job);
    }
  }
}

// Functions that grant and end leases.

std::vector<int> Broker::positions_of(const Job& job) const {
  std::vector<int> positions;
  for (const model::Grant& grant : job.grants) {
    const auto at = std::find(units_.begin(), units_.end(), grant.unit);
    if (at != units_.end()) positions.push_back(static_cast<int>(at - units_.begin()));
  }
  std::sort(positions.begin(), positions.end());
  return positions;
}

void Broker::take_lease(const Job& job) {
  for (const model::Grant& grant : job.grants)
    ledger_.holdings.push_back(
        {job.id, job.user, grant.unit, grant.memory_bytes, grant.share_permille});
  ledger_.cpus.insert(ledger_.cpus.end(), job.cpus.begin(), job.cpus.end());
  std::sort(ledger_.cpus.begin(), ledger_.cpus.end());
}

void Broker::give_lease_back(const Job& job) {
  std::erase_if(ledger_.holdings,
                [&](const model::Holding& one) { return one.job == job.id && one.stuck_pid == 0; });
  std::erase_if(ledger_.cpus,
                [&](int cpu) { return std::binary_search(job.cpus.begin(), job.cpus.end(), cpu); });
  // The last snapshot may still list processes of this job that are dead or about to die. They must
  // not block the next job.
  std::erase_if(snapshot_.processes, [&](const model::DeviceProcess& process) {
    return process.pid && std::any_of(ledger_.processes.begin(), ledger_.processes.end(),
                                      [&](const model::JobProcess& one) {
                                        return one.pid == *process.pid && one.job == job.id;
                                      });
  });
}

bool Broker::start(const policy::Start& start, Now now) {
  Job& job = jobs_.at(start.job);
  const model::Request least = wish_of(job);
  model::Request request = least;
  if (request.gpus_most) request.gpus = static_cast<int>(start.devices.size());
  auto placement = policy::place(request, snapshot_, ledger_);
  // The queue only compares numbers, so place() may refuse the number of devices that the queue
  // chose. Then try the smallest number that the job allows.
  if (!placement && request.gpus_most) placement = policy::place(least, snapshot_, ledger_);
  if (!placement) return false;
  job.grants.clear();
  for (std::size_t i = 0; i < placement->devices.size(); ++i)
    job.grants.push_back({unit_of(snapshot_, placement->devices[i], placement->partitions[i]),
                          job.request.memory_bytes.value_or(0),
                          job.request.share_permille.value_or(0)});
  job.affinity = placement->cpus;
  job.cpus.clear();
  if (job.request.cpus)
    job.cpus = model::parse_cpu_list(placement->cpus).value_or(std::vector<int>());
  job.state = JobState::kRunning;
  job.last_outcome.reset();
  job.started_unix_milliseconds = now.unix_milliseconds;
  take_lease(job);
  queue_.started(job.id, positions_of(job), now.steady);
  pending_.erase(job.id);
  changed_.insert(job.id);
  return true;
}

std::vector<JobId> Broker::start_what_fits(Now now) {
  std::vector<JobId> started;
  while (const auto next = queue_.next(now.steady)) {
    if (start(*next, now)) {
      started.push_back(next->job);
    } else {
      // The queue only compares numbers; place() checks more, and it refused this job. The job is
      // queued again when the machine has changed.
      queue_.remove(next->job, now.steady);
      passed_over_.insert(next->job);
    }
  }
  return started;
}

void Broker::set_owners(JobId id, std::vector<model::ProcessId> owners) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.owners == owners) return;
  found->second.owners = std::move(owners);
  // The owners of a queued job are stored in its job folder, so its journal record does not change.
  if (!found->second.queued) changed_.insert(id);
}

void Broker::set_access(JobId id, model::Access access, std::string group) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  found->second.access = access;
  found->second.group = std::move(group);
  changed_.insert(id);
}

void Broker::set_refusals(JobId id, std::uint64_t refusals) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.refusals == refusals) return;
  found->second.refusals = refusals;
  changed_.insert(id);
}

void Broker::tell_to_end(JobId id, model::ToldToEnd how) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.state != JobState::kRunning) return;
  found->second.told_to_end = std::move(how);
  queue_.leaves(id);
  changed_.insert(id);
}

Status Broker::set_next_try(JobId id, model::QueuedTry next) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return no_such_job(id);
  Job& job = found->second;
  if (!job.queued || job.state != JobState::kRunning || job.told_to_end)
    return Error{ErrorCode::kInvalidArgument, "E0993",
                 text("job {} cannot go back to the queue: it does not run, was not queued, or is "
                      "being ended",
                      model::job_number(job)),
                 fmt::format("berth why {}", model::job_number(job))};
  model::Request left = wish_of(job);
  left.without.insert(left.without.end(), next.without.begin(), next.without.end());
  const auto demand = policy::demand_of(left, snapshot_, units_, ledger_);
  if (!demand || (demand->devices == 0 && !job.grants.empty()))
    return Error{ErrorCode::kNoDevice, "E0994",
                 text("without the devices on which it failed, too few devices are left for job {}",
                      model::job_number(job)),
                 "berth ls"};
  job.next_try = std::move(next);
  changed_.insert(id);
  return Done{};
}

void Broker::set_warned(JobId id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  found->second.warned = true;
  changed_.insert(id);
}

void Broker::set_usage(JobId id, const model::JobUsage& usage) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  found->second.usage = usage;
  changed_.insert(id);
}

void Broker::end(JobId id, JobState state, std::optional<model::Outcome> outcome, std::string why,
                 Now now) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.state != JobState::kRunning) return;
  Job& job = found->second;
  queue_.ended(id, now.steady);
  give_lease_back(job);
  if (state == JobState::kWaiting) {
    Job again = job;
    model::wait_again(again, outcome, now.unix_milliseconds);
    const auto demand = demand_of(again);
    if (demand) {
      job = std::move(again);
      return put_back(job, *demand, std::move(why), now);
    }
    // The machine has changed and can never run this job again.
    state = JobState::kFailed;
    why = demand.error().message;
  }
  job.state = state;
  job.outcome = job.told_to_end ? model::outcome_of(*job.told_to_end, outcome) : outcome;
  job.why = std::move(why);
  job.ended_unix_milliseconds = now.unix_milliseconds;
  job.owners.clear();
  if (job.told_to_end) job.ended_by = job.told_to_end->by;
  job.told_to_end.reset();
  changed_.insert(id);
  ended(job, now);
}

/// Puts a job that had already started back into the queue, where it waits again.
void Broker::put_back(Job& job, const policy::Demand& demand, std::string why, Now now) {
  job.why = std::move(why);
  changed_.insert(job.id);
  pending_[job.id] = {demand, now.steady, job.pause.count() > 0};
  if (job.or_cpu_after && demand.devices > 0) may_turn_.insert(job.id);
  stand_in_line(job);
}

std::vector<std::pair<JobId, std::string>> Broker::to_preempt(Now now) const {
  std::vector<std::pair<JobId, std::string>> out;
  const auto found = queue_.preemption(now.steady);
  if (!found) return out;
  const std::string why =
      text("job {} of {} needs the devices", number(found->for_job), jobs_.at(found->for_job).user);
  for (const JobId id : found->jobs) out.emplace_back(id, why);
  return out;
}

const Job* Broker::job(JobId id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

std::set<JobId> Broker::changed() {
  return std::exchange(changed_, {});
}

int Broker::user_of(const Job& job) {
  return static_cast<int>(job.uid);
}

/// True for a queued CPU job that gives no number of cores. It counts as one core. Without this,
/// the broker could start a hundred such jobs at the same time.
bool Broker::takes_a_core(const Job& job, int devices) {
  return job.queued && devices == 0 && !job.request.cpus;
}

Status Broker::check_after(const Job& job) const {
  for (const auto* list : {&job.after, &job.after_any, &job.after_not_ok})
    for (const JobId other : *list) {
      const std::set<JobId> of_array = arrays_.jobs(other);
      const Job* found = this->job(of_array.empty() ? other : *of_array.begin());
      if (found == nullptr) return no_such_job(other);
      // This check must not reveal how another user's job ended.
      if (found->uid != job.uid) return not_yours(*found);
    }
  for (const JobId other : job.after)
    if (is_over(other) && !went_well(other))
      return Error{ErrorCode::kInvalidArgument, "E0903",
                   text("job {} did not succeed, so no job can start after it", number(other)),
                   fmt::format("berth run --queue --after any:{} …", number(other))};
  for (const JobId other : job.after_not_ok)
    if (is_over(other) && went_well(other))
      return Error{ErrorCode::kInvalidArgument, "E0903",
                   text("job {} succeeded, so no job can start after its failure", number(other)),
                   fmt::format("berth run --queue --after any:{} …", number(other))};
  return Done{};
}

/// The job's request, which also excludes the devices on which an earlier try failed.
model::Request Broker::wish_of(const Job& job) {
  model::Request request = job.request;
  request.without.insert(request.without.end(), job.avoids.begin(), job.avoids.end());
  return request;
}

/// What the job needs. A job avoids the devices on which it failed, unless the machine has too few
/// other devices. If no device is left and the job accepts the CPU, it is moved to the CPU
/// immediately.
Result<policy::Demand> Broker::demand_of(Job& job) const {
  auto demand = policy::demand_of(wish_of(job), snapshot_, units_, ledger_);
  const bool wants_device = job.request.gpus != 0;
  if (!job.avoids.empty() && (!demand || (wants_device && demand->devices == 0))) {
    job.avoids.clear();
    demand = policy::demand_of(job.request, snapshot_, units_, ledger_);
  }
  if (!demand && demand.error().code == ErrorCode::kNoDevice && job.or_cpu_after) {
    job.request = policy::on_cpu(job.request);
    demand = policy::demand_of(job.request, snapshot_, units_, ledger_);
  }
  if (demand && takes_a_core(job, demand->devices)) demand->cpus = 1;
  return demand;
}

JobId Broker::enter(Job job, const policy::Demand& demand, Now now) {
  job.id = next_++;
  job.state = job.state == JobState::kHeld ? JobState::kHeld : JobState::kWaiting;
  job.submitted_unix_milliseconds = now.unix_milliseconds;
  // A job that needs no device must not count as a GPU job.
  if (demand.devices == 0) job.request = policy::on_cpu(job.request);
  const bool is_listed = all_jobs_.size() == jobs_.size();
  const Job& kept = jobs_.emplace(job.id, std::move(job)).first->second;
  // This job has the highest number, so the list stays sorted.
  if (is_listed) all_jobs_.push_back(&kept);
  if (kept.task) arrays_.add(kept);
  remember_key(kept);
  pending_[kept.id] = {demand, now.steady};
  if (kept.or_cpu_after && demand.devices > 0) may_turn_.insert(kept.id);
  follow_all(kept);
  if (kept.state == JobState::kWaiting && !waits_for_another(kept)) stand_in_line(kept);
  user_load_.add(kept);
  changed_.insert(kept.id);
  return kept.id;
}

void Broker::remember_key(const Job& job) {
  if (!job.key.empty())
    keys_.insert_or_assign({job.uid, job.key}, job.task ? job.task->array : job.id);
}

std::optional<JobId> Broker::submitted(std::uint32_t uid, const std::string& key) const {
  const auto found = key.empty() ? keys_.end() : keys_.find({uid, key});
  return found == keys_.end() ? std::nullopt : std::optional(found->second);
}

/// Rejects a job that cannot be stored or could never start.
Result<policy::Demand> Broker::admit(Job& job, std::size_t count) const {
  if (auto room = user_load_.room_for(job, count); !room) return std::move(room).error();
  if (auto sound = check_after(job); !sound) return std::move(sound).error();
  auto demand = demand_of(job);
  const policy::UserRules rules = queue_.rules(user_of(job));
  if (demand && rules.most_jobs == 0)
    return Error{ErrorCode::kRefused, "E0938", text("you may not run jobs here"), "berth jobs"};
  if (demand && rules.most_devices && demand->devices > *rules.most_devices)
    return Error{ErrorCode::kRefused, "E0938",
                 text_n("one user may have {} device at a time, and {} were requested",
                        "one user may have {} devices at a time, and {} were requested",
                        *rules.most_devices, *rules.most_devices, demand->devices),
                 *rules.most_devices == 0
                     ? "berth run --cpu …"
                     : fmt::format("berth run --gpus {} …", *rules.most_devices)};
  return demand;
}

Result<JobId> Broker::submit(Job job, Now now) {
  const auto demand = admit(job, 1);
  if (!demand) return demand.error();
  return enter(std::move(job), *demand, now);
}

Result<JobId> Broker::submit_array(const Job& job, const model::ArrayRange& range, Now now) {
  Job task = job;
  const auto demand = admit(task, range.indices.size());
  if (!demand) return demand.error();
  const JobId array = next_++;
  for (const int index : range.indices) {
    task.task = {array, index, range.at_most};
    enter(task, *demand, now);
  }
  return array;
}

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

std::optional<Job> Broker::withdraw(JobId id, Now now) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.queued || !pending_.contains(id) ||
      followers_.contains(id))
    return std::nullopt;
  leave_line(found->second, now);
  user_load_.remove(found->second);
  pending_.erase(id);
  may_turn_.erase(id);
  for (auto& [other, waiting] : followers_) waiting.erase(id);
  changed_.erase(id);
  Job job = std::move(found->second);
  jobs_.erase(found);
  all_jobs_.clear();
  job.state = JobState::kCancelled;
  job.ended_unix_milliseconds = now.unix_milliseconds;
  return job;
}

std::vector<JobId> Broker::forget_ended_before(std::int64_t unix_milliseconds,
                                               const std::map<UserJobs, std::int64_t>& of_user) {
  const auto before = [&](const Job& job) {
    const auto theirs = of_user.find({job.uid, job.queued});
    return theirs == of_user.end() ? unix_milliseconds
                                   : std::max(unix_milliseconds, theirs->second);
  };
  std::vector<JobId> gone;
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    const Job& job = at->second;
    // Keep the newest job, because its number tells a restarted broker which numbers are used.
    const bool is_old = model::has_ended(job.state) && !followers_.contains(job.id) &&
                        !(job.task && followers_.contains(job.task->array)) && job.id + 1 < next_ &&
                        job.ended_unix_milliseconds.value_or(0) < before(job);
    if (is_old) gone.push_back(job.id);
    if (is_old && !job.key.empty()) keys_.erase({job.uid, job.key});
    if (is_old && job.task && arrays_.forget(job)) gone.push_back(job.task->array);
    at = is_old ? jobs_.erase(at) : std::next(at);
  }
  for (const JobId id : gone) changed_.erase(id);
  if (!gone.empty()) all_jobs_.clear();
  return gone;
}

const std::vector<const Job*>& Broker::all_jobs() const {
  if (all_jobs_.size() == jobs_.size()) return all_jobs_;
  all_jobs_.clear();
  all_jobs_.reserve(jobs_.size());
  for (const auto& [id, job] : jobs_) all_jobs_.push_back(&job);
  return all_jobs_;
}

}  // namespace berth::broker
