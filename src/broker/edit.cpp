// Changes to jobs that are already queued.
#include <algorithm>

#include "base/text.hpp"
#include "base/units.hpp"
#include "broker/broker.hpp"
#include "policy/demand.hpp"

namespace berth::broker {
namespace {

using std::chrono::milliseconds;

std::optional<std::uint64_t> partition_bytes(const model::Snapshot& snapshot,
                                             const std::string& uuid) {
  for (const model::Device& device : snapshot.devices)
    for (const model::Partition& part : device.partitions)
      if (part.uuid == uuid && part.memory_total_bytes) return *part.memory_total_bytes;
  return std::nullopt;
}

constexpr int kMostPriority = 1000;

Error cannot_change(const std::string& why) {
  return {ErrorCode::kInvalidArgument, "E0948", why, "berth help edit"};
}

bool is_only_time_limit(const Changes& changes) {
  return changes.time_limit && !changes.priority && !changes.gpus && !changes.after &&
         !changes.after_any && !changes.after_not_ok && !changes.first && !changes.swap &&
         !changes.memory_bytes && !changes.share_permille;
}
bool is_only_size(const Changes& changes) {
  Changes others = changes;
  others.time_limit = milliseconds(0);
  others.memory_bytes.reset();
  others.share_permille.reset();
  return !changes.time_limit && is_only_time_limit(others) &&
         (changes.memory_bytes || changes.share_permille);
}

/// A job may depend only on older jobs, so that no two jobs can wait for each other. `next`: the
/// number that the next submitted job will get.
Status check_older(const Job& job, JobId next) {
  for (const auto* list : {&job.after, &job.after_any, &job.after_not_ok})
    for (const JobId other : *list)
      if (other >= next)
        return no_such_job(other);
      else if (other >= (job.task ? job.task->array : job.id))
        return cannot_change(text("job {} can only depend on jobs that were queued before it",
                                  model::job_number(job)));
  return Done{};
}

/// The error if a running job cannot get more of its device. `memory_bytes`: the requested memory,
/// or 0 if only a larger share was requested.
Error cannot_grow(const std::string& number, std::uint64_t memory_bytes,
                  const policy::Queue::Room& room) {
  constexpr std::uint64_t kMiB = 1ULL << 20U;
  const std::string most =
      fmt::format("berth resize {} --memory {}MiB", number, room.most_bytes / kMiB);
  if (memory_bytes > room.device_bytes)
    return {
        ErrorCode::kRefused, "E0521",
        text("job {} cannot have {}: its device has {}, and the job can have {} of it", number,
             show_bytes(memory_bytes), show_bytes(room.device_bytes), show_bytes(room.most_bytes)),
        most};
  if (memory_bytes > room.most_bytes)
    return {ErrorCode::kRefused, "E0521",
            text("job {} can have at most {}: other jobs and processes have the rest of the device",
                 number, show_bytes(room.most_bytes)),
            most + "\nberth"};
  return {ErrorCode::kRefused, "E0521",
          text("job {} cannot have that much: other jobs and processes have the rest of the device",
               number),
          "berth"};
}

}  // namespace

Status Broker::edit(JobId id, const Changes& changes, Caller caller, Now now) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return no_such_job(id);
  Job& job = found->second;
  if (job.state == JobState::kRunning && is_only_size(changes)) {
    if (job.uid != caller.uid && !caller.admin) return not_yours(job);
    return resize(job, changes, now);
  }
  if (job.state != JobState::kRunning || !is_only_time_limit(changes)) {
    const auto waiting = changeable(id, caller);
    if (!waiting) return waiting.error();
    return change_line(job, changes, caller, now);
  }
  if (job.uid != caller.uid && !caller.admin) return not_yours(job);
  const std::optional<milliseconds> limit =
      changes.time_limit->count() == 0 ? std::nullopt : changes.time_limit;
  // The start times of other jobs were planned with the old limit, and some of those jobs may
  // already run. So a longer limit is refused.
  const bool is_longer = job.time_limit && (!limit || *limit > *job.time_limit);
  if (is_longer && !caller.admin)
    return Error{ErrorCode::kPermissionDenied, "E0949",
                 text("job {} runs: only an administrator can extend its time limit",
                      model::job_number(job)),
                 fmt::format("sudo berth edit {} --time-limit …", model::job_number(job))};
  job.time_limit = limit;
  queue_.set_time_limit(id, model::time_left(job));
  changed_.insert(id);
  return Done{};
}

/// Changes the memory or share of a running job, which keeps its devices.
Status Broker::resize(Job& job, const Changes& changes, Now now) {
  const std::string number = model::job_number(job);
  if (job.grants.empty() || job.grants.front().memory_bytes == 0)
    return cannot_change(
        text("job {} has no part of a shared device: it was started without --memory", number));
  const model::Grant& has = job.grants.front();
  if (changes.share_permille && has.share_permille == 0)
    return cannot_change(text("job {} was started without --share", number));
  const int cap = job.request.turns.cap_permille.value_or(model::kWholePermille);
  if (changes.share_permille.value_or(0) > cap)
    return cannot_change(text("the share would be more than the cap of job {}", number));
  const std::uint64_t memory = changes.memory_bytes.value_or(has.memory_bytes);
  const int share = changes.share_permille.value_or(has.share_permille);
  const auto most = has.made ? partition_bytes(snapshot_, has.unit) : std::nullopt;
  if (most && memory > *most)
    return Error{ErrorCode::kRefused, "E0521",
                 text("the MIG partition of job {} has only {}", number, show_bytes(*most)),
                 "berth ls --details"};
  if (!queue_.resize(job.id, memory, share, now.steady))
    return cannot_grow(number, memory > has.memory_bytes ? memory : 0, queue_.room_for(job.id));
  for (model::Grant& grant : job.grants) {
    grant.memory_bytes = memory;
    grant.share_permille = share;
  }
  for (model::Holding& holding : ledger_.holdings) {
    if (holding.job != job.id) continue;
    holding.memory_bytes = memory;
    holding.share_permille = share;
  }
  job.request.memory_bytes = memory;
  if (share > 0) job.request.share_permille = share;
  changed_.insert(job.id);
  reconsider();
  return Done{};
}

/// Applies all changes or none.
Status Broker::change_line(Job& job, const Changes& changes, Caller caller, Now now) {
  Job other = job;
  if (changes.priority)
    other.priority = std::clamp(*changes.priority, -kMostPriority, kMostPriority);
  if (changes.time_limit)
    other.time_limit = changes.time_limit->count() == 0 ? std::nullopt : changes.time_limit;
  if (changes.gpus) {
    other.request.gpus = *changes.gpus;
    other.request.gpus_most.reset();
  }
  if (changes.memory_bytes) other.request.memory_bytes = changes.memory_bytes;
  if (changes.share_permille) other.request.share_permille = changes.share_permille;
  if (changes.after) other.after = *changes.after;
  if (changes.after_any) other.after_any = *changes.after_any;
  if (changes.after_not_ok) other.after_not_ok = *changes.after_not_ok;
  if (other.warning && !model::fits(*other.warning, other.time_limit))
    return cannot_change(text("the signal's lead time must be shorter than the time limit"));
  if (auto older = check_older(other, next_); !older) return older;
  Job* swapped = nullptr;
  if (changes.swap && *changes.swap != job.id) {
    const auto with = changeable(*changes.swap, caller);
    if (!with) return with.error();
    swapped = *with;
    if (swapped->uid != job.uid) return not_yours(*swapped);
    other.priority = swapped->priority;
  }
  const auto is_of_same_array = [&](const Job& one) {
    return one.task && job.task && one.task->array == job.task->array;
  };
  if (changes.first)
    for (const auto& [id, waits] : pending_)
      if (const Job& one = jobs_.at(id);
          one.uid == job.uid && id != job.id && !is_of_same_array(one))
        other.priority = std::max(other.priority, std::min(one.priority + 1, kMostPriority));
  user_load_.remove(job);
  auto demand = admit(other, 1);
  user_load_.add(job);
  if (!demand) return demand.error();
  if (demand->devices == 0) other.request = policy::on_cpu(other.request);

  leave_line(job, now);
  user_load_.remove(job);
  if (swapped != nullptr) {
    leave_line(*swapped, now);
    const JobId mine = job.place == 0 ? job.id : job.place;
    other.place = swapped->place == 0 ? swapped->id : swapped->place;
    swapped->place = mine;
    swapped->priority = job.priority;
    changed_.insert(swapped->id);
  }
  job = std::move(other);
  user_load_.add(job);
  pending_.at(job.id).demand = *demand;
  may_turn_.erase(job.id);
  if (job.or_cpu_after && demand->devices > 0) may_turn_.insert(job.id);
  follow_all(job);
  changed_.insert(job.id);
  for (Job* one : {&job, swapped})
    if (one != nullptr && one->state == JobState::kWaiting && !waits_for_another(*one))
      stand_in_line(*one);
  return Done{};
}

}  // namespace berth::broker
