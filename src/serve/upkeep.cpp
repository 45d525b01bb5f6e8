// Execution: what it takes over from the broker before it, and what time does to what it keeps.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "serve/execution.hpp"

namespace berth::serve {

using model::Job;
using model::JobId;
using model::JobState;
using std::chrono::milliseconds;

namespace {

using Json = nlohmann::json;

std::uint64_t bytes_on_disk(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * 512
                                            : 0;
}

}  // namespace

// What a restart of the machine did to jobs is written down in one step with the clock that tells
// of it: a broker that is killed in between leaves all of it to the next one, or nothing.
void Execution::restore() {
  auto jobs = journal_.jobs();
  if (!jobs) {
    fail(jobs.error());
    return;
  }
  // By the clock of who wrote it; what was done to that since, mind_clock() finds.
  const std::string clock = journal_.value(kClock).value_or("");
  const bool is_restarted = clock_.is_of_another_start(clock);
  clock_.resume(clock);
  const auto as_it_stands = is_restarted ? *jobs : std::vector<Job>();
  const auto back = is_restarted ? put_back(*jobs) : std::vector<JobId>();
  bring_back(*jobs);
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

void Execution::bring_back(const std::vector<Job>& jobs) {
  restore_drained();
  restore_shares();
  for (const bool runs : {true, false})
    for (const Job& job : jobs)
      if ((job.state == JobState::kRunning) == runs) {
        know_user(job);
        broker_.restore(job, now());
      }
}

void Execution::take_over(const std::vector<Job>& jobs, bool is_restarted) {
  std::set<JobId> running;
  for (const Job& job : jobs) {
    // Who waited may have gone while no broker was there.
    if (!job.queued && !model::has_ended(job.state)) watches_.watch(job.id, job.owners);
    if (job.state != JobState::kRunning) continue;
    running.insert(job.id);
    if (fence_ && fence_->has_group(job.id))
      enclose(job.id);
    else if (!job.group.empty())
      broker_.set_access(job.id, model::Access::kVariable, "");
    find_again(job, is_restarted);
  }
  // Their keepers have these, and no other broker: they are not somebody else's.
  locks_.keep(leased_units());
  find_what_others_gave();
  if (fence_) fence_->clean_up(running);
  launcher_.forget_all_but([this](JobId id) { return broker_.job(id) != nullptr; });
}

/// A machine that stops tells all that still runs to end: that is no end of the job's own.
std::optional<model::Outcome> Execution::outcome_before_restart(const Job& job) const {
  if (!job.told_to_end && launcher_.was_told_to_end(job.id)) return std::nullopt;
  return launcher_.outcome(job.id);
}

/// What ran when the machine stopped, and may run twice, stands in line again; their ids.
std::vector<JobId> Execution::put_back(std::vector<Job>& jobs) const {
  std::vector<JobId> back;
  for (Job& job : jobs) {
    if (job.state != JobState::kRunning || !job.requeue || job.told_to_end ||
        job.restarts >= model::kMostRestarts || outcome_before_restart(job))
      continue;
    ++job.restarts;
    job.state = JobState::kWaiting;
    job.requeued_unix_milliseconds = now().unix_milliseconds;
    job.started_unix_milliseconds.reset();
    job.grants.clear();
    job.cpus.clear();
    job.affinity.clear();
    job.owners.clear();
    job.group.clear();
    job.access = model::Access::kVariable;
    job.refusals = 0;
    back.push_back(job.id);
  }
  return back;
}

void Execution::find_what_others_gave() {
  if (!options_.for_all || std::exchange(has_looked_at_locks_, true)) return;
  const auto ours = leased_units();
  before_us_ = broker_.units();
  std::erase_if(before_us_, [&](const std::string& unit) {
    return std::find(ours.begin(), ours.end(), unit) != ours.end();
  });
  static_cast<void>(units_of_others());
}

void Execution::restore_drained() {
  const Json drained = Json::parse(journal_.value(kDrained).value_or("[]"), nullptr, false);
  std::vector<std::string> units;
  for (const Json& unit : drained)
    if (unit.is_string()) units.push_back(unit.get<std::string>());
  broker_.restore_drained(std::move(units));
}

/// {"at":UNIX_MILLISECONDS,"ahead":{"1000":DEVICE_SECONDS}}: while no broker was there, it faded.
void Execution::restore_shares() {
  shares_ = journal_.value(kShares).value_or("{}");
  const Json shares = Json::parse(shares_, nullptr, false);
  if (!shares.is_object() || !shares.contains("at") || !shares["at"].is_number_integer() ||
      !shares.contains("ahead"))
    return;
  const auto away = now().unix_milliseconds - json_value<std::int64_t>(shares["at"]);
  const double left = std::exp2(-std::max(0.0, static_cast<double>(away)) /
                                static_cast<double>(options_.settings.rules.half_life.count()));
  for (const auto& [uid, seconds] : shares["ahead"].items())
    if (const auto number = to_number(uid); number && seconds.is_number())
      broker_.set_ahead(static_cast<std::uint32_t>(*number), seconds.get<double>() * left, now());
}

void Execution::find_again(const Job& job, bool is_restarted) {
  // What the disk did not get before the machine stopped nobody knows: it may have been started,
  // and is not started twice.
  if (is_restarted && job.queued) {
    const auto outcome = outcome_before_restart(job);
    const bool is_good = outcome && outcome->kind == model::OutcomeClass::kOk;
    const std::string why = outcome ? "" : text("the machine was restarted while it ran");
    const auto how = how_stopped(job.id, {!outcome  ? JobState::kLost
                                          : is_good ? JobState::kDone
                                                    : JobState::kFailed,
                                          why});
    return end(job.id, how.state, outcome, how.why);
  }
  // It was written down that it runs; whether it was started its folder knows.
  const auto keeper = job.queued ? launcher_.keeper(job.id) : std::nullopt;
  if (keeper)
    set_owners(job.id, {*keeper});
  else if (job.queued)
    launch_soon(job.id);
  if (job.told_to_end) stop(job.id, *job.told_to_end);
}

// A journal that cannot be written.

void Execution::fail(Error error) {
  if (!fault_)
    notes_.push_back(text("{}: nothing new is taken or started until it can be", error.message));
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
  // What ended meanwhile is found again, and written down this time.
  is_ahead_ = true;
  go_back();
  return !fault_;
}

// What time brings.

void Execution::keep_shares() {
  if (fault_) return;
  Json ahead = Json::object();
  for (const std::uint32_t uid : known_users_)
    if (const double seconds = broker_.ahead(uid, now()); seconds >= 1)
      ahead[std::to_string(uid)] = std::floor(seconds);
  const Json before = Json::parse(shares_, nullptr, false);
  if (before.is_object() && before.value("ahead", Json::object()) == ahead) return;
  shares_ = Json{{"at", now().unix_milliseconds}, {"ahead", ahead}}.dump();
  if (auto written = journal_.set_value(kShares, shares_); !written) fail(written.error());
  is_dirty_ = true;
}

/// The moment before which what ended must go, so that the rest is no more than may be kept.
std::int64_t Execution::too_much_output_before() {
  std::vector<std::pair<std::int64_t, std::uint64_t>> kept;  // when it ended, how much it wrote
  for (const auto& [id, job] : broker_.jobs()) {
    if (!job.queued || !model::has_ended(job.state)) continue;
    const auto [size, is_new] = output_bytes_.try_emplace(id, 0);
    if (is_new) size->second = bytes_on_disk(launcher_.log(id));
    kept.emplace_back(job.ended_unix_milliseconds.value_or(0), size->second);
  }
  std::sort(kept.rbegin(), kept.rend());
  std::uint64_t sum = 0;
  // How the last one ended, and what it said of it, is always wanted.
  for (std::size_t i = 0; i < kept.size(); ++i)
    if ((sum += kept[i].second) > options_.settings.keep_output_bytes && i > 0)
      return kept[i].first + 1;
  return 0;
}

/// Nothing is cut while its job runs, which may need it; but the disk is everybody's.
void Execution::note_long_output() {
  for (const JobRoot& root : watches_.roots()) {
    const Job* job = broker_.job(root.job);
    if (job == nullptr || !job->queued) continue;
    const std::uint64_t bytes = bytes_on_disk(launcher_.log(root.job));
    std::uint64_t& noted = noted_bytes_[root.job];
    if (bytes <= std::max(options_.settings.keep_output_bytes, 2 * noted)) continue;
    noted = bytes;
    notes_.push_back(text("job {} runs, and has written {}, more than is kept of all that ended",
                          root.job, show_bytes(bytes)));
  }
}

void Execution::mind_clock() {
  const std::int64_t by = clock_.was_set_by();
  if (by == 0 || !settle()) return;
  const std::int64_t from = clock_.at_start(), to = clock_.now();
  broker_.move_times(from, to, by);
  Json shares = Json::parse(shares_, nullptr, false);
  if (const auto at = shares.find("at");
      at != shares.end() && at->is_number_integer() && *at >= from && *at <= to) {
    *at = at->get<std::int64_t>() + by;
    shares_ = shares.dump();
  }
  clock_.follow();
  const auto changed = broker_.changed();
  std::vector<const Job*> rows;
  rows.reserve(changed.size());
  for (const JobId id : changed) rows.push_back(broker_.job(id));
  // All at once: half of it would be moved twice by the next broker.
  if (auto written = journal_.write(rows, {}, {{kClock, clock_.record()}, {kShares, shares_}});
      !written) {
    fail(written.error());
    return;
  }
  is_dirty_ = true;
  const std::string much = show_duration(milliseconds(std::abs(by)));
  notes_.push_back(by > 0 ? text("the clock was set forward by {}: times of jobs move along", much)
                          : text("the clock was set back by {}: times of jobs move along", much));
  changed_(changed);
}

/// Of who has more of them than are kept: the moment before which what ended must go.
std::map<std::uint32_t, std::int64_t> Execution::too_many_before() const {
  constexpr std::size_t kMostEnded = 20'000;
  std::map<std::uint32_t, std::vector<std::int64_t>> ended;
  for (const auto& [id, job] : broker_.jobs())
    if (model::has_ended(job.state))
      ended[job.uid].push_back(job.ended_unix_milliseconds.value_or(0));
  std::map<std::uint32_t, std::int64_t> before;
  for (auto& [uid, times] : ended) {
    if (times.size() <= kMostEnded) continue;
    const auto newest = times.end() - static_cast<std::ptrdiff_t>(kMostEnded);
    std::nth_element(times.begin(), newest, times.end());
    before[uid] = *newest;
  }
  return before;
}

void Execution::forget_old() {
  note_long_output();
  // What is too old by a clock that was set a moment ago may not be.
  const std::int64_t too_old =
      clock_.was_set_lately() ? 0 : now().unix_milliseconds - options_.settings.keep.count();
  const auto gone =
      broker_.forget_ended_before(std::max(too_old, too_much_output_before()), too_many_before());
  if (gone.empty()) return;
  for (const JobId id : gone) {
    output_bytes_.erase(id);
    noted_bytes_.erase(id);
  }
  if (auto written = journal_.write({}, gone); !written) {
    fail(written.error());
    return;
  }
  for (const JobId id : gone) launcher_.forget(id);
  is_dirty_ = true;
}

}  // namespace berth::serve
