// What may come into the line: a job that can be kept, and that can start one day.
#include "base/text.hpp"
#include "broker/broker.hpp"
#include "policy/demand.hpp"

namespace berth::broker {

int Broker::user_of(const Job& job) {
  return static_cast<int>(job.uid);
}

/// What is queued for the CPU counts as one core, though it may use all: else a hundred would start
/// at once.
bool Broker::takes_a_core(const Job& job, int devices) {
  return job.queued && devices == 0 && !job.request.cpus;
}

Status Broker::check_after(const Job& job) const {
  for (const JobId other : job.after) {
    const std::set<JobId> of_array = arrays_.jobs(other);
    const Job* found = this->job(of_array.empty() ? other : *of_array.begin());
    if (found == nullptr) return no_such_job(other);
    // How it ends is nobody else's.
    if (found->uid != job.uid) return not_yours(*found);
    const bool went_well =
        of_array.empty() ? found->state == JobState::kDone : arrays_.is_good(other);
    if (is_over(other) && !went_well)
      return Error{ErrorCode::kInvalidArgument, "E0903",
                   text("job {} did not end well, so nothing can come after it", number(other)),
                   "berth jobs"};
  }
  return Done{};
}

/// On a machine that has no such device, who would take the CPU takes it at once.
Result<policy::Demand> Broker::demand_of(Job& job) const {
  auto demand = policy::demand_of(job.request, snapshot_, units_);
  if (!demand && demand.error().code == ErrorCode::kNoDevice && job.or_cpu_after) {
    job.request = policy::on_cpu(job.request);
    demand = policy::demand_of(job.request, snapshot_, units_);
  }
  if (demand && takes_a_core(job, demand->devices)) demand->cpus = 1;
  return demand;
}

JobId Broker::enter(Job job, const policy::Demand& demand, Now now) {
  job.id = next_++;
  job.state = job.state == JobState::kHeld ? JobState::kHeld : JobState::kWaiting;
  job.submitted_unix_milliseconds = now.unix_milliseconds;
  if (demand.devices == 0) job.request = policy::on_cpu(job.request);  // it is not a GPU's turn
  const Job& kept = jobs_.emplace(job.id, std::move(job)).first->second;
  if (kept.task) arrays_.add(kept);
  pending_[kept.id] = {demand, now.steady};
  if (kept.or_cpu_after && demand.devices > 0) may_turn_.insert(kept.id);
  for (const JobId other : kept.after)
    if (!is_over(other)) followers_[other].insert(kept.id);
  if (kept.state == JobState::kWaiting && !waits_for_another(kept)) stand_in_line(kept);
  crowd_.add(kept);
  changed_.insert(kept.id);
  return kept.id;
}

/// What can be kept, and can ever start: else it would wait for ever.
Result<policy::Demand> Broker::admit(Job& job, std::size_t count) const {
  if (auto room = crowd_.room_for(job, count); !room) return std::move(room).error();
  if (auto sound = check_after(job); !sound) return std::move(sound).error();
  auto demand = demand_of(job);
  const policy::UserRules rules = queue_.rules(user_of(job));
  if (demand && rules.most_jobs == 0)
    return Error{ErrorCode::kRefused, "E0938", text("you may run no jobs here"), "berth jobs"};
  if (demand && rules.most_devices && demand->devices > *rules.most_devices)
    return Error{ErrorCode::kRefused, "E0938",
                 text_n("one user may have {} device at a time, and {} were asked for",
                        "one user may have {} devices at a time, and {} were asked for",
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

}  // namespace berth::broker
