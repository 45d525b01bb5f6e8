#include "policy/queue.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/result.hpp"
#include "model/run.hpp"

namespace berth::policy {
namespace {

using std::chrono::milliseconds;

/// The least remaining time that is assumed for a running job without a time limit.
constexpr milliseconds kShortest = std::chrono::minutes(15);
/// The maximum number of kinds of jobs that are examined per event. Users share it equally, so that
/// one user with a thousand kinds cannot hide other users' jobs.
constexpr int kMostLooks = 1000;
constexpr int kLeastLooks = 10;
constexpr std::size_t kMostBefore = 100;

/// The expected remaining time of a running job. With a time limit: until the limit. Without: as
/// long again as it has run so far, but not less than `at_least`.
milliseconds expected_rest(const RunningJob& job, Instant now, milliseconds at_least) {
  const milliseconds has_run = std::max(now - job.started, milliseconds(0));
  return job.time_limit ? std::max(*job.time_limit - has_run, milliseconds(0))
                        : std::max(has_run, at_least);
}

/// Whether the user's limits allow this demand in addition to the devices and jobs that the user
/// has.
bool allows(const UserRules& rules, int devices, int jobs, const Demand& demand) {
  return (!rules.most_jobs || jobs < *rules.most_jobs) &&
         (!rules.most_devices || devices + demand.devices <= *rules.most_devices);
}

}  // namespace

std::string_view name(Obstruction why) {
  switch (why) {
    case Obstruction::kNothing:
      return "nothing";
    case Obstruction::kBusy:
      return "busy";
    case Obstruction::kReserved:
      return "reserved";
    case Obstruction::kUserLimit:
      return "user_limit";
    case Obstruction::kNever:
      return "never";
  }
  return "";
}

/// Iterates over the waiting jobs in the order in which they may start. User::lines has one line
/// for each kind of job. Each step takes the best of the first jobs of all lines.
class Queue::Walk {
 public:
  Walk(const Queue& queue, Instant now) : queue_(queue), now_(now) {
    // Add the expected remaining time of running jobs to past use. Without it, a user who has just
    // started eight jobs would rank like a user who has started one.
    std::map<int, double> coming;
    for (const auto& [id, job] : queue.running_)
      coming[job.user] +=
          std::chrono::duration<double>(expected_rest(job, now, kShortest)).count() *
          weight(queue.pool_, job.demand, job.devices);
    for (const auto& [number, user] : queue.users_) {
      if (user.heads.empty()) continue;
      const double standing =
          queue.shares_.ahead(number, now) + coming[number] / queue.shares_.weight(number);
      steps_.push_back({standing, user.heads.begin(), user.heads.end()});
    }
  }

  /// From now on, examines only some jobs of each user, to keep the scan short.
  void look_at_few() {
    most_of_a_user_ =
        std::max(kLeastLooks, kMostLooks / std::max(1, static_cast<int>(steps_.size())));
  }

  /// Returns the next job; nullptr at the end.
  const WaitingJob* next() {
    Step* best = nullptr;
    for (Step& step : steps_)
      if (step.at != step.end && step.looks < most_of_a_user_ &&
          (best == nullptr || key(step) < key(*best)))
        best = &step;
    if (best == nullptr) return nullptr;
    const JobId job = best->at->first.job;
    ++best->at;
    ++best->looks;
    return &queue_.waiting_.at(job);
  }

 private:
  struct Step {
    double standing = 0;
    std::set<std::pair<Place, const Kind*>>::const_iterator at, end;
    int looks = 0;
  };
  [[nodiscard]] std::tuple<int, double, JobId> key(const Step& step) const {
    const JobId job = step.at->first.job;
    return {-queue_.tier_now(queue_.waiting_.at(job), now_), step.standing, job};
  }

  const Queue& queue_;
  Instant now_;
  std::vector<Step> steps_;
  int most_of_a_user_ = std::numeric_limits<int>::max();
};

Queue::Queue(Pool machine, QueueRules rules)
    : rules_(rules), shares_(rules.half_life), machine_(std::move(machine)), pool_(machine_) {}

void Queue::set_machine(const Pool& machine) {
  BERTH_CHECK(machine.devices.size() >= machine_.devices.size());
  pool_ = machine_ = machine;
  for (const auto& [id, job] : running_) take(pool_, job.demand, job.devices);
}

void Queue::set_user(int number, const UserRules& rules) {
  shares_.set_weight(number, rules.weight);
  users_[number].rules = rules;
}

int Queue::tier_now(const WaitingJob& job, Instant now) const {
  const bool ages = job.tier < 0 && job.tier != kPreemptibleTier;
  return ages && now - job.queued >= rules_.aging ? 0 : job.tier;
}

UserRules Queue::rules(int user) const {
  const auto found = users_.find(user);
  return found == users_.end() ? UserRules() : found->second.rules;
}

// The following functions change the waiting jobs.

void Queue::add(const WaitingJob& job) {
  const auto [entry, is_new] = waiting_.emplace(job.id, job);
  BERTH_CHECK(is_new);
  User& owner = users_[job.user];
  if (owner.lines.empty()) shares_.wait(job.user, job.queued);
  const auto line = owner.lines.try_emplace({job.demand, job.time_limit}).first;
  const Place place = place_of(job);
  if (!line->second.empty()) owner.heads.erase({*line->second.begin(), &line->first});
  line->second.insert(place);
  owner.heads.insert({*line->second.begin(), &line->first});
}

bool Queue::remove(JobId id, Instant now) {
  const auto entry = waiting_.find(id);
  if (entry == waiting_.end()) return false;
  const WaitingJob& job = entry->second;
  User& owner = users_[job.user];
  const auto line = owner.lines.find({job.demand, job.time_limit});
  owner.heads.erase({*line->second.begin(), &line->first});
  line->second.erase(place_of(job));
  if (line->second.empty())
    owner.lines.erase(line);
  else
    owner.heads.insert({*line->second.begin(), &line->first});
  if (owner.lines.empty()) shares_.stop_waiting(job.user, now);
  waiting_.erase(entry);
  return true;
}

Queue::Place Queue::place_of(const WaitingJob& job) {
  return {-job.tier, -job.priority, job.place == 0 ? job.id : job.place, job.id};
}

void Queue::set_time_limit(JobId id, std::optional<milliseconds> limit) {
  const auto entry = running_.find(id);
  if (entry != running_.end()) entry->second.time_limit = limit;
}

bool Queue::resize(JobId id, std::uint64_t memory_bytes, int share_permille, Instant now) {
  const auto entry = running_.find(id);
  BERTH_CHECK(entry != running_.end() && memory_bytes > 0);
  RunningJob& job = entry->second;
  Pool beside = pool_;
  give_back(beside, job.demand, job.devices);
  const double before = weight(pool_, job.demand, job.devices);
  Demand demand = job.demand;
  demand.memory_bytes = memory_bytes;
  demand.share_permille = share_permille;
  take(beside, demand, job.devices);
  // Check only values that increase. A job may always reduce its memory or share, even if the
  // device is overcommitted.
  for (const int at : job.devices) {
    const Slot& slot = beside.devices.at(static_cast<std::size_t>(at));
    if (memory_bytes > job.demand.memory_bytes && slot.memory_taken_bytes > slot.memory_bytes)
      return false;
    if (share_permille > job.demand.share_permille &&
        slot.share_taken_permille > model::kWholePermille)
      return false;
  }
  pool_ = std::move(beside);
  job.demand = demand;
  shares_.use(job.user, weight(pool_, demand, job.devices) - before, now);
  return true;
}

Queue::Room Queue::room_for(JobId id) const {
  const auto entry = running_.find(id);
  BERTH_CHECK(entry != running_.end() && !entry->second.devices.empty());
  Pool beside = pool_;
  give_back(beside, entry->second.demand, entry->second.devices);
  Room room{UINT64_MAX, UINT64_MAX};
  for (const int at : entry->second.devices) {
    const Slot& slot = beside.devices.at(static_cast<std::size_t>(at));
    room.device_bytes = std::min(room.device_bytes, slot.memory_bytes);
    room.most_bytes = std::min(
        room.most_bytes, slot.memory_bytes - std::min(slot.memory_bytes, slot.memory_taken_bytes));
  }
  return room;
}

void Queue::begin(const RunningJob& job) {
  const auto [entry, is_new] = running_.emplace(job.id, job);
  BERTH_CHECK(is_new);
  take(pool_, job.demand, job.devices);
  User& owner = users_[job.user];
  ++owner.use.jobs;
  owner.use.devices += static_cast<int>(job.devices.size());
  shares_.use(job.user, weight(pool_, job.demand, job.devices), job.started);
}

void Queue::started(JobId id, const std::vector<int>& devices, Instant now) {
  const auto entry = waiting_.find(id);
  BERTH_CHECK(entry != waiting_.end());
  WaitingJob job = entry->second;
  remove(id, now);
  if (job.demand.most_devices > 0) job.demand.devices = static_cast<int>(devices.size());
  job.demand.most_devices = 0;
  begin({job.id, job.user, job.demand, devices, job.time_limit, now, job.tier == kPreemptibleTier,
         false});
}

void Queue::adopt(const RunningJob& job) {
  begin(job);
}

void Queue::ended(JobId id, Instant now) {
  const auto entry = running_.find(id);
  BERTH_CHECK(entry != running_.end());
  const RunningJob& job = entry->second;
  give_back(pool_, job.demand, job.devices);
  User& owner = users_[job.user];
  --owner.use.jobs;
  owner.use.devices -= static_cast<int>(job.devices.size());
  shares_.use(job.user, -weight(pool_, job.demand, job.devices), now);
  running_.erase(entry);
}

// The following functions choose the next job.

std::vector<Queue::Release> Queue::releases(Instant now) const {
  std::vector<Release> out;
  for (const auto& [id, job] : running_)
    out.push_back(
        {now + expected_rest(job, now, std::chrono::minutes(1)), id, job.time_limit.has_value()});
  std::sort(out.begin(), out.end(), [](const Release& a, const Release& b) {
    return std::tie(a.at, a.job) < std::tie(b.at, b.job);
  });
  return out;
}

std::optional<Queue::Reservation> Queue::reserve(const Demand& least, Instant now,
                                                 const Scene* scene) const {
  const Pool& pool = scene == nullptr ? pool_ : scene->pool;
  Reservation out{now, pool};
  Demand demand = least;
  demand.most_devices = 0;
  auto devices = fit(out.beside, demand);
  for (const Release& release : releases(now)) {
    if (devices) break;
    if (scene != nullptr && scene->ended.contains(release.job)) continue;
    const RunningJob& job = running_.at(release.job);
    give_back(out.beside, job.demand, job.devices);
    out.from = release.at;
    devices = fit(out.beside, demand);
  }
  if (!devices) return std::nullopt;
  // Prefer devices that are in use now and become free later. Other jobs can then use the devices
  // that are free now.
  Pool later = out.beside;
  for (std::size_t i = pool.devices.size(); i-- > 0;) {
    if (pool.devices[i].leases > 0 || !later.devices[i].usable) continue;
    later.devices[i].usable = false;
    if (auto others = fit(later, demand))
      devices = std::move(others);
    else
      later.devices[i].usable = true;
  }
  take(out.beside, demand, *devices);
  return out;
}

Queue::Look Queue::look(const WaitingJob& job, std::optional<Reservation>& first, Instant now,
                        const Scene* scene) const {
  const Pool& pool = scene == nullptr ? pool_ : scene->pool;
  const User& owner = users_.at(job.user);
  if (!allows(owner.rules, owner.use.devices, owner.use.jobs, job.demand))
    return {Obstruction::kUserLimit, {}};
  const bool gone_by_then = first && job.time_limit && *job.time_limit <= first->from - now;
  Demand demand = job.demand;
  if (owner.rules.most_devices)
    demand.most_devices =
        std::min(demand.most_devices, *owner.rules.most_devices - owner.use.devices);
  auto devices = fit(!first || gone_by_then ? pool : common(pool, first->beside), demand);
  if (devices) return {Obstruction::kNothing, *std::move(devices)};
  if (first && fit(pool, job.demand)) return {Obstruction::kReserved, {}};
  if (!could_ever_fit(machine_, job.demand)) return {Obstruction::kNever, {}};
  if (!first) first = reserve(job.demand, now, scene);
  return {Obstruction::kBusy, {}};
}

std::optional<Start> Queue::next(Instant now) const {
  Walk walk(*this, now);
  walk.look_at_few();
  std::optional<Reservation> first;
  while (const WaitingJob* job = walk.next()) {
    Look found = look(*job, first, now);
    if (found.obstruction == Obstruction::kNothing) return Start{job->id, std::move(found.devices)};
  }
  return std::nullopt;
}

void Queue::leaves(JobId id) {
  const auto entry = running_.find(id);
  if (entry != running_.end()) entry->second.leaving = true;
}

/// Whether the job would start. `blocked`: the earlier job that has the reservation because it
/// cannot start; nullptr: there is none.
bool Queue::starts(const WaitingJob& job, const WaitingJob* blocked, const Scene& scene,
                   Instant now) const {
  auto first = blocked == nullptr ? std::nullopt : reserve(blocked->demand, now, &scene);
  return look(job, first, now, &scene).obstruction == Obstruction::kNothing;
}

/// Returns as few of these running jobs as possible whose end lets `wanted` start.
Queue::Preemption Queue::fewest(const WaitingJob& wanted, const WaitingJob* blocked, Scene scene,
                                const std::vector<const RunningJob*>& newest, Instant now) const {
  std::vector<const RunningJob*> chosen;
  for (const RunningJob* one : newest) {
    give_back(scene.pool, one->demand, one->devices);
    scene.ended.insert(one->id);
    chosen.push_back(one);
    if (starts(wanted, blocked, scene, now)) break;
  }
  Preemption out{wanted.id, {}};
  for (const RunningJob* one : chosen) {
    Scene without = scene;
    take(without.pool, one->demand, one->devices);
    without.ended.erase(one->id);
    if (starts(wanted, blocked, without, now))
      scene = std::move(without);  // `wanted` starts even if this job goes on
    else
      out.jobs.push_back(one->id);
  }
  return out;
}

std::optional<Queue::Preemption> Queue::preemption(Instant now) const {
  // the machine after the end of all jobs that were told to end
  Scene soon{pool_, {}};
  std::vector<const RunningJob*> newest;
  for (const auto& [id, job] : running_) {
    if (job.leaving) {
      give_back(soon.pool, job.demand, job.devices);
      soon.ended.insert(id);
    } else if (job.preemptible) {
      newest.push_back(&job);
    }
  }
  if (newest.empty() || waiting_.empty()) return std::nullopt;
  std::sort(newest.begin(), newest.end(), [](const RunningJob* a, const RunningJob* b) {
    return std::tie(a->started, a->id) > std::tie(b->started, b->id);
  });
  Scene at_most = soon;  // the machine after the end of all preemptible jobs
  for (const RunningJob* one : newest) {
    give_back(at_most.pool, one->demand, one->devices);
    at_most.ended.insert(one->id);
  }
  Walk walk(*this, now);
  walk.look_at_few();
  std::optional<Reservation> first;
  const WaitingJob* blocked = nullptr;
  while (const WaitingJob* wanted = walk.next()) {
    if (wanted->tier == kPreemptibleTier) break;
    const Obstruction why = look(*wanted, first, now).obstruction;
    if (why != Obstruction::kBusy && why != Obstruction::kReserved) continue;
    if (starts(*wanted, blocked, soon, now)) break;
    if (starts(*wanted, blocked, at_most, now))
      return fewest(*wanted, blocked, std::move(soon), newest, now);
    if (blocked == nullptr) blocked = wanted;
  }
  return std::nullopt;
}

Queue::Outlook Queue::outlook(JobId id, Instant now) const {
  const WaitingJob& wanted = waiting_.at(id);
  const Kind kind{wanted.demand, wanted.time_limit};
  Outlook out;
  Walk walk(*this, now);
  std::optional<Reservation> first;
  while (const WaitingJob* job = walk.next()) {
    out.obstruction = look(*job, first, now).obstruction;
    if (job->user == wanted.user && Kind{job->demand, job->time_limit} == kind) break;
    if (out.before.size() < kMostBefore) out.before.push_back(job->id);
  }
  for (const Place& place : users_.at(wanted.user).lines.at(kind)) {
    if (place.job == id || out.before.size() >= kMostBefore) break;
    out.before.push_back(place.job);
  }
  return out;
}

std::optional<Instant> Queue::fits_at(int user, const Demand& demand, Instant now) const {
  const auto owner = users_.find(user);
  Use use = owner == users_.end() ? Use() : owner->second.use;
  Pool beside = pool_;
  const auto fits = [&] {
    return allows(rules(user), use.devices, use.jobs, demand) && fit(beside, demand);
  };
  if (fits()) return now;
  for (const Release& release : releases(now)) {
    const RunningJob& job = running_.at(release.job);
    give_back(beside, job.demand, job.devices);
    if (job.user == user) {
      --use.jobs;
      use.devices -= static_cast<int>(job.devices.size());
    }
    if (fits()) return release.at;
  }
  return std::nullopt;
}

const WaitingJob* Queue::waiting(JobId job) const {
  const auto found = waiting_.find(job);
  return found == waiting_.end() ? nullptr : &found->second;
}

const RunningJob* Queue::running(JobId job) const {
  const auto found = running_.find(job);
  return found == running_.end() ? nullptr : &found->second;
}

}  // namespace berth::policy
