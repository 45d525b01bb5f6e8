#include "broker/broker.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "model/cpu_list.hpp"
#include "policy/candidates.hpp"
#include "policy/demand.hpp"
#include "policy/placement.hpp"

namespace berth::broker {
namespace {

/// The unit of a placement's device, or of its partition.
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

// The machine.

void Broker::see(model::Snapshot snapshot, std::vector<model::JobProcess> processes) {
  snapshot_ = std::move(snapshot);
  ledger_.processes = std::move(processes);
  std::sort(ledger_.processes.begin(), ledger_.processes.end(),
            [](const model::JobProcess& a, const model::JobProcess& b) { return a.pid < b.pid; });
  units_ = policy::units_of(snapshot_, std::move(units_));
  reckon_machine();
  reconsider();
}

/// What could not be placed may be now.
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

Status Broker::drain(const std::string& unit, bool drained) {
  if (std::find(units_.begin(), units_.end(), unit) == units_.end())
    return Error{ErrorCode::kNotFound, "E0413", text("there is no device {}", unit), "berth ls"};
  std::erase(drained_, unit);
  if (drained) drained_.push_back(unit);
  close_drained();
  return Done{};
}

void Broker::restore_drained(std::vector<std::string> units) {
  drained_ = std::move(units);
  close_drained();
}

void Broker::close_drained() {
  const auto place = [&](const std::string& unit) {
    return std::find(units_.begin(), units_.end(), unit) - units_.begin();
  };
  std::sort(drained_.begin(), drained_.end(),
            [&](const std::string& a, const std::string& b) { return place(a) < place(b); });
  std::erase_if(ledger_.holdings,
                [&](const model::Holding& one) { return one.job == 0 && one.user.empty(); });
  // Job 0 is nobody's: place() gives the unit to no one else.
  for (const std::string& unit : drained_) ledger_.holdings.push_back({0, "", unit, 0});
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
  queue_.set_machine(policy::pool_of(snapshot_, ledger_, units_, drained_, elsewhere_));
}

// In and out of the line.

bool Broker::is_over(JobId job_or_array) const {
  const Job* found = job(job_or_array);
  return found == nullptr ? arrays_.is_over(job_or_array) : model::has_ended(found->state);
}

bool Broker::waits_for_another(const Job& job) const {
  return std::any_of(job.after.begin(), job.after.end(),
                     [&](JobId other) { return !is_over(other); });
}

void Broker::stand_in_line(const Job& job) {
  if (job.task && !arrays_.enter(job)) return;
  const Pending& pending = pending_.at(job.id);
  queue_.add({job.id, user_of(job), pending.demand, job.time_limit, job.tier, job.priority,
              pending.queued});
}

/// Out of line, or never in it, or over: another of its array may come in its place.
void Broker::leave_line(const Job& job, Now now) {
  queue_.remove(job.id, now.steady);
  passed_over_.erase(job.id);
  if (!job.task) return;
  if (const auto next = arrays_.leave(job)) stand_in_line(jobs_.at(*next));
}

std::string Broker::number(JobId job_or_array) const {
  const Job* found = job(job_or_array);
  return found == nullptr ? std::to_string(job_or_array) : model::job_number(*found);
}

void Broker::turn_to_cpu(Now now) {
  for (auto at = may_turn_.begin(); at != may_turn_.end();) {
    Job& job = jobs_.at(*at);
    const auto pending = pending_.find(job.id);
    if (pending == pending_.end()) {  // it runs, or is over
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
  if (kept.task) arrays_.add(kept);
  if (model::has_ended(kept.state)) return;
  crowd_.add(kept);
  auto demand = demand_of(kept);
  for (const JobId other : kept.after)
    if (!is_over(other)) followers_[other].insert(kept.id);
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
    queue_.adopt({kept.id, user_of(kept), has, positions_of(kept), kept.time_limit,
                  steady(kept.started_unix_milliseconds.value_or(now.unix_milliseconds))});
    take_lease(kept);
    return;
  }
  if (!demand) {
    // The machine has changed: what it never can give is not waited for.
    kept.state = JobState::kFailed;
    kept.why = demand.error().message;
    kept.ended_unix_milliseconds = now.unix_milliseconds;
    changed_.insert(kept.id);
    ended(kept, now);
    return;
  }
  pending_[kept.id] = {
      *demand, steady(kept.requeued_unix_milliseconds.value_or(kept.submitted_unix_milliseconds))};
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
    if (!waits_for_another(job)) stand_in_line(job);
  }
  return Done{};
}

/// Its state is its last.
void Broker::ended(const Job& job, Now now) {
  crowd_.remove(job);
  leave_line(job, now);
  over_.emplace_back(job.id, job.state == JobState::kDone);
  if (job.task && arrays_.ended(job))
    over_.emplace_back(job.task->array, arrays_.is_good(job.task->array));
  // What follows may end others; a chain of them may be long, so they queue up here.
  if (std::exchange(following_, true)) return;
  for (std::size_t i = 0; i < over_.size(); ++i) follow(over_[i].first, over_[i].second, now);
  over_.clear();
  following_ = false;
}

/// Those that waited for it come into line, or go with it.
void Broker::follow(JobId over, bool well, Now now) {
  const auto found = followers_.find(over);
  if (found == followers_.end()) return;
  const std::set<JobId> waiting = std::move(found->second);
  followers_.erase(found);
  for (const JobId id : waiting) {
    Job& job = jobs_.at(id);
    if (job.state != JobState::kWaiting && job.state != JobState::kHeld) continue;
    if (!well) {
      job.why = text("job {}, which it was to come after, did not end well", number(over));
      static_cast<void>(cancel(id, {job.uid, true}, now));
    } else if (job.state == JobState::kWaiting && !waits_for_another(job)) {
      stand_in_line(job);
    }
  }
}

// Leases.

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
  std::erase_if(ledger_.holdings, [&](const model::Holding& one) { return one.job == job.id; });
  std::erase_if(ledger_.cpus,
                [&](int cpu) { return std::binary_search(job.cpus.begin(), job.cpus.end(), cpu); });
  // Dead, or soon: what the last look saw of them must not keep the device from the next job.
  std::erase_if(snapshot_.processes, [&](const model::DeviceProcess& process) {
    return process.pid && std::any_of(ledger_.processes.begin(), ledger_.processes.end(),
                                      [&](const model::JobProcess& one) {
                                        return one.pid == *process.pid && one.job == job.id;
                                      });
  });
}

bool Broker::start(const policy::Start& start, Now now) {
  Job& job = jobs_.at(start.job);
  auto placement = policy::place(job.request, snapshot_, ledger_);
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
      // place() knows more than numbers say; it is asked again when the machine looks different.
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
  // Who keeps a queued job its folder knows.
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
  changed_.insert(id);
}

void Broker::end(JobId id, JobState state, std::optional<model::Outcome> outcome, std::string why,
                 Now now) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.state != JobState::kRunning) return;
  Job& job = found->second;
  queue_.ended(id, now.steady);
  give_lease_back(job);
  job.state = state;
  job.outcome = outcome;
  job.why = std::move(why);
  job.ended_unix_milliseconds = now.unix_milliseconds;
  job.owners.clear();
  job.told_to_end.reset();
  changed_.insert(id);
  ended(job, now);
}

const Job* Broker::job(JobId id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

std::set<JobId> Broker::changed() {
  return std::exchange(changed_, {});
}

}  // namespace berth::broker
