#include "serve/api.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "base/text.hpp"
#include "broker/job_record.hpp"
#include "output/json.hpp"
#include "serve/refusal.hpp"
#include "serve/selection.hpp"
#include "system/terminals.hpp"

namespace berth::serve {
namespace {

/// The maximum number of listeners of one user. Each listener gets all unfinished jobs at the
/// start, and then every change.
constexpr std::ptrdiff_t kMostListeners = 32;

using broker::Caller;
using broker::no_such_job;
using model::Job;
using model::JobId;
using model::JobState;

Error not_theirs(std::int64_t pid) {
  return {ErrorCode::kPermissionDenied, "E0912",
          text("process {} does not exist, or is not yours", pid),
          fmt::format("ps -o pid,user,args {}", pid)};
}

/// Returns the owner processes of a lease. The lease lasts as long as these processes, which must
/// belong to the caller's user.
Result<std::vector<model::ProcessId>> owners_of(const Job& submitted, const Call& call) {
  std::vector<model::ProcessId> owners;
  for (const model::ProcessId& one : submitted.owners) {
    const auto ticks = start_ticks_of(one.pid);
    if (!ticks || (uid_of(one.pid) != call.peer.uid && call.peer.uid != 0))
      return not_theirs(one.pid);
    owners.push_back({one.pid, *ticks});
  }
  if (owners.empty() && !submitted.queued) {
    // Over TCP the calling process is unknown. `call.peer.pid` is then the pid of this process,
    // which cannot own a lease.
    if (call.peer.pid == ::getpid()) return not_theirs(call.peer.pid);
    const auto& ticks = call.peer.start_ticks;
    if (!ticks || (uid_of(call.peer.pid) != call.peer.uid && call.peer.uid != 0))
      return not_theirs(call.peer.pid);
    owners.push_back({call.peer.pid, *ticks});
  }
  return owners;
}

/// Returns those processes that belong to this user.
std::vector<model::ProcessId> stuck_of(std::vector<model::ProcessId> told, std::uint32_t uid) {
  std::erase_if(told, [&](const model::ProcessId& one) { return uid_of(one.pid) != uid; });
  return told;
}

/// Copies only the values that a client may choose. The user id comes from the kernel, and the
/// broker decides everything else.
Job job_from(Job submitted, const Call& call) {
  Job job;
  job.uid = call.peer.uid;
  job.name = std::move(submitted.name);
  job.request = std::move(submitted.request);
  job.command = std::move(submitted.command);
  job.queued = submitted.queued;
  job.priority = std::clamp(submitted.priority, -1000, 1000);
  job.tier = call.peer.uid == 0 ? std::clamp(submitted.tier, -1, 1) : std::min(submitted.tier, 0);
  job.time_limit = submitted.time_limit;
  job.or_cpu_after = submitted.or_cpu_after;
  job.after = std::move(submitted.after);
  job.after_any = std::move(submitted.after_any);
  job.after_not_ok = std::move(submitted.after_not_ok);
  job.grace = submitted.grace;
  job.warning = submitted.warning;
  job.on_end = submitted.queued ? std::move(submitted.on_end) : "";
  job.notify = submitted.notify;
  job.requeue = submitted.requeue && submitted.queued;
  job.preemptible = submitted.preemptible && submitted.queued;
  job.key = std::move(submitted.key);
  if (submitted.state == JobState::kHeld) job.state = JobState::kHeld;
  return job;
}

/// Rejects unknown keys: `?limti=5` would return all jobs, and `?wiat=ended` would not wait.
Status check_query(const std::map<std::string, std::string>& query, bool is_list) {
  static const std::set<std::string_view> of_list{"all",   "running", "also",    "mine",
                                                  "user",  "name",    "number",  "state",
                                                  "since", "limit",   "compact", "last"};
  static const std::set<std::string_view> of_job{"wait", "from"};
  for (const auto& [key, value] : query)
    if (!(is_list ? of_list : of_job).contains(key))
      return Error{ErrorCode::kInvalidArgument, "E0919", text("there is no key {}", printable(key)),
                   ""};
  return Done{};
}

/// job_json() has a single line break, at its end. So it fits into one `data:` line.
std::string event_of(std::uint64_t number, const output::ShownJob& shown) {
  return fmt::format("id: {}\nevent: job\ndata: {}\n", number, output::job_json(shown));
}

}  // namespace

bool Api::is_admin(const Call& call) const {
  const auto is_admins = [&](gid_t group) {
    return std::find(admin_gids_.begin(), admin_gids_.end(), group) != admin_gids_.end();
  };
  return call.peer.uid == 0 || is_admins(call.peer.gid) ||
         std::any_of(call.peer.groups.begin(), call.peer.groups.end(), is_admins);
}

Caller Api::caller_of(const Call& call) const {
  return {call.peer.uid, is_admin(call), users_.of(call.peer.uid)};
}

output::ShownJob Api::shown(const Job& job, const Call& call) const {
  return {&job, call.peer.uid == job.uid || is_admin(call), execution_.log_of(job)};
}

void Api::act(const Call& call, const Answer& answer) {
  if (call.method != "GET" && execution_.fault()) return answer.send(refusal(*execution_.fault()));
  // Write and answer earlier changes first: no caller may see a change that is not in the journal.
  if (call.method == "GET") answer_all();
  const auto parts = split(std::string_view(call.path).substr(call.path.empty() ? 0 : 1), '/');
  const auto number = parts.size() > 2 ? to_number(parts[2]).value_or(-1) : -1;
  const auto id = number >= 0 ? std::optional(static_cast<JobId>(number)) : std::nullopt;
  const bool is_jobs = parts.size() >= 2 && parts[0] == "v1" && parts[1] == "jobs";
  const bool is_get = call.method == "GET";
  const bool is_post = call.method == "POST";
  if (is_jobs)
    if (auto known = check_query(call.query, is_get && parts.size() == 2); !known)
      return answer.send(refusal(known.error()));
  if (is_jobs && parts.size() == 2 && is_post) return submit(call, answer);
  if (is_jobs && parts.size() == 2 && is_get) return list(call, answer);
  if (is_get && call.path == "/v1/events") return listen(call, answer);
  if (is_jobs && id && parts.size() <= 4)
    return act_on(*id, parts.size() == 4 ? parts[3] : "", call, answer);
  if (is_get && call.path == "/v1/machine")
    return answer.send({200, output::machine_json(execution_.broker().snapshot())});
  if (is_post && (call.path == "/v1/devices/drain" || call.path == "/v1/devices/undrain"))
    return drain(call.path == "/v1/devices/drain", call, answer);
  answer.send(refusal(no_such_place(call)));
}

void Api::act_on(JobId id, std::string_view what, const Call& call, const Answer& answer) {
  const bool is_get = call.method == "GET";
  if (is_get && what.empty()) return show(id, call, answer);
  if (is_get && what == "why") return outlook(id, answer);
  if (is_get && what == "log") return log(id, call, answer);
  if (is_get && what == "report") return report(id, call, answer);
  if (call.method == "POST" && !what.empty()) return change(id, what, call, answer);
  answer.send(refusal(no_such_place(call)));
}

void Api::drain(bool drained, const Call& call, const Answer& answer) {
  // A user's own broker serves only that user.
  const bool may = call.peer.uid == ::geteuid() || is_admin(call);
  if (!may)
    return answer.send(
        refusal({ErrorCode::kPermissionDenied, "E0926",
                 text("only an administrator may drain a device that all users share"),
                 "sudo berth drain"}));
  const auto device = broker::unit_of(call.body);
  if (!device) return answer.send(refusal(device.error()));
  if (auto done = execution_.drain(*device, drained); !done)
    return answer.send(refusal(done.error()));
  changed_.push_back({0, asker(call, answer)});
}

void Api::submit(const Call& call, const Answer& answer) {
  auto submitted = broker::submission_of(call.body);
  if (!submitted) return answer.send(refusal(submitted.error()));
  auto owners = owners_of(submitted->job, call);
  if (!owners) return answer.send(refusal(owners.error()));
  submitted->job = job_from(std::move(submitted->job), call);
  submitted->job.user = users_.of(call.peer.uid);
  submitted->job.owners = *std::move(owners);
  if (submitted->job.notify)
    for (std::string& one : system::terminals_of({}, "", call.peer.pid, ""))
      submitted->job.terminal = std::move(one);
  const bool is_array = submitted->job.queued && submitted->array;
  const auto range = model::parse_array_range(is_array ? std::string_view(*submitted->array)
                                                       : std::string_view("1"));
  if (!range) return answer.send(refusal(range.error()));
  // The key is known, so this call repeats a submission whose answer may have been lost. Return the
  // same job.
  if (const auto before = execution_.broker().submitted(call.peer.uid, submitted->job.key)) {
    changed_.push_back({*before, asker(call, answer)});
    return;
  }
  const auto id = is_array ? execution_.submit_array(*submitted, *range, call.peer)
                           : execution_.submit(*submitted, call.peer);
  if (!id) return answer.send(refusal(id.error()));
  changed_.push_back({*id, asker(call, answer)});
}

void Api::answer_all() {
  if (changed_.empty()) return;
  const bool is_written = execution_.settle();
  for (const auto& [id, who] : std::exchange(changed_, {}))
    if (!is_written)
      who.answer.send(refusal(*execution_.fault()));
    else if (id == 0)
      list(who.call, who.answer);
    else
      show(id, who.call, who.answer);
}

void Api::list(const Call& call, const Answer& answer) {
  const auto selected = select_jobs(execution_.broker().all_jobs(), call.query, call.peer.uid,
                                    execution_.now().unix_milliseconds);
  if (!selected) return answer.send(refusal(selected.error()));
  std::vector<output::ShownJob> all;
  all.reserve(selected->jobs.size());
  for (const Job* job : selected->jobs) {
    all.push_back(shown(*job, call));
    if (const auto alike = selected->alike.find(job->id); alike != selected->alike.end())
      all.back().alike = alike->second;
  }
  const broker::Broker& broker = execution_.broker();
  answer.send(
      {200, output::jobs_json(all, broker.closed(), selected->not_shown, execution_.notices())});
}

/// Sends all unfinished jobs first, then each change. Leaves out what this caller may not see.
void Api::listen(const Call& call, const Answer& answer) {
  forget_listeners();
  const auto theirs = std::count_if(listeners_.begin(), listeners_.end(), [&](const Waiting& one) {
    return one.call.peer.uid == call.peer.uid;
  });
  if (theirs >= kMostListeners)
    return answer.send(
        refusal({ErrorCode::kUnavailable, "E0928",
                 text("{} of your connections are already waiting for events", theirs), ""}));
  listeners_.push_back(asker(call, answer));
  std::string all;
  for (const auto& [id, job] : execution_.broker().jobs())
    if (!model::has_ended(job.state)) all += event_of(events_, shown(job, call));
  answer.stream(all + "event: ready\ndata: {}\n\n");
}

void Api::forget_listeners() {
  listeners_.remove_if([](const Waiting& one) { return !one.answer.is_wanted(); });
}

void Api::tell_listeners(const std::set<JobId>& changed) {
  forget_listeners();
  if (listeners_.empty()) return;
  ++events_;
  for (const Waiting& one : listeners_)
    for (const JobId id : changed)
      one.answer.stream(event_of(events_, shown(*execution_.broker().job(id), one.call)));
}

void Api::beat() {
  for (const Waiting& one : listeners_) one.answer.stream(":\n\n");
}

/// With ?wait=started or ?wait=ended, delays the answer until the job has started or ended.
void Api::show(JobId id, const Call& call, const Answer& answer) {
  const Job* job = execution_.broker().job(id);
  if (job == nullptr) return show_array(id, call, answer);
  const auto wait = call.query.find("wait");
  const bool is_over = model::has_ended(job->state);
  if (wait != call.query.end() && wait->second != "started" && wait->second != "ended")
    return answer.send(refusal(
        {ErrorCode::kInvalidArgument, "E0919",
         text("'wait' must be 'started' or 'ended', not '{}'", printable(wait->second)), ""}));
  const bool is_so = wait == call.query.end() || is_over ||
                     (wait->second == "started" && job->state == JobState::kRunning);
  if (!is_so) return keep_waiting(id, call, answer);
  const bool is_new =
      call.method == "POST" && (call.path.ends_with("/jobs") || call.path.ends_with("/rerun"));
  const int status = is_new ? 201 : 200;
  answer.send({status, output::job_json(shown(*job, call))});
}

void Api::show_array(JobId id, const Call& call, const Answer& answer) {
  const auto jobs = execution_.broker().jobs_of_array(id);
  if (jobs.empty()) return answer.send(refusal(no_such_job(id)));
  std::vector<output::ShownJob> all;
  all.reserve(jobs.size());
  for (const JobId one : jobs) all.push_back(shown(*execution_.broker().job(one), call));
  const bool is_new = call.method == "POST" && call.path.ends_with("/jobs");
  answer.send({is_new ? 201 : 200, output::array_json(id, all)});
}

/// Nothing reports that a client has disconnected. So look for such clients each time the list has
/// doubled.
void Api::keep_waiting(JobId id, const Call& call, const Answer& answer) {
  if (waiting_.size() >= look_through_at_) {
    std::erase_if(waiting_, [](const auto& one) { return !one.second.answer.is_wanted(); });
    look_through_at_ = std::max<std::size_t>(64, 2 * waiting_.size());
  }
  waiting_.emplace(id, asker(call, answer));
}

/// Sends what a waiting job waits for. All users may see which jobs come before it.
void Api::outlook(JobId id, const Answer& answer) {
  const Job* job = execution_.broker().job(id);
  if (job == nullptr) return answer.send(refusal(no_such_job(id)));
  output::JobOutlook out;
  if (execution_.broker().waits_for_its_array(*job)) out.obstruction = "array_limit";
  const auto pauses = execution_.broker().pauses_until(id);
  if (pauses) out.obstruction = "pause";
  if (execution_.fault()) out.obstruction = "journal";
  const broker::Now at = execution_.now();
  const policy::Queue& queue = execution_.broker().queue();
  const auto wall = [&](policy::Instant then) {
    return at.unix_milliseconds +
           std::chrono::duration_cast<std::chrono::milliseconds>(then - at.steady).count();
  };
  if (pauses && !execution_.fault()) out.fits_at = wall(*pauses);
  if (const policy::WaitingJob* waiting = queue.waiting(id)) {
    const auto seen = queue.outlook(id, at.steady);
    if (!execution_.fault()) out.obstruction = policy::name(seen.obstruction);
    out.before = seen.before;
    if (execution_.fault())
      out.fits_at.reset();  // unknown while the journal cannot be written
    else if (execution_.gives_way())
      out.obstruction = "gives_way";
    else if (const auto fits = queue.fits_at(waiting->user, waiting->demand, at.steady))
      out.fits_at = wall(*fits);
    for (const auto& one : queue.releases(at.steady))
      out.releases.push_back({one.job, wall(one.at), one.by_limit});
  }
  answer.send({200, output::outlook_json(out)});
}

/// Sends output of a job that was queued, from the byte `from` of the call. Sends an empty text if
/// there is nothing new yet.
void Api::log(JobId id, const Call& call, const Answer& answer) {
  constexpr std::size_t kMost = 1 << 20;
  const Job* job = execution_.broker().job(id);
  if (job == nullptr) return answer.send(refusal(no_such_job(id)));
  if (!shown(*job, call).whole) return answer.send(refusal(broker::not_yours(*job)));
  const auto from = call.query.find("from");
  const auto at =
      from == call.query.end() ? std::optional<std::int64_t>(0) : to_number(from->second);
  if (!at || *at < 0)
    return answer.send(
        refusal({ErrorCode::kInvalidArgument, "E0919",
                 text("'{}' is not a number of bytes", printable(from->second)), ""}));
  run::OutputPart part = execution_.output_of(*job, *at, kMost);
  Reply reply{200, std::move(part.bytes), kAnyBytes};
  reply.next = part.next;
  answer.send(std::move(reply));
}

/// Sends the report of a job: what it used and what limited it.
void Api::report(JobId id, const Call& call, const Answer& answer) {
  const Job* job = execution_.broker().job(id);
  if (job == nullptr) return answer.send(refusal(no_such_job(id)));
  if (!shown(*job, call).whole) return answer.send(refusal(broker::not_yours(*job)));
  const std::string found = execution_.report_of(*job);
  if (found.empty())
    return answer.send(refusal(
        {ErrorCode::kNotFound, "E0989",
         text("job {} has no report: it has not ended, ran for less than half a second, or was not "
              "started by berth run",
              id),
         fmt::format("berth report {}", id)}));
  answer.send({200, found});
}

void Api::change(JobId id, std::string_view what, const Call& call, const Answer& answer) {
  if (what == "cancel")
    if (const auto gone = execution_.withdraw(id, call.peer))
      return answer.send({200, output::job_json({&*gone, true, ""})});
  if (what == "rerun") return rerun(id, call, answer);
  const auto of_array = execution_.broker().jobs_of_array(id);
  const Status done =
      of_array.empty() ? change_one(id, what, call) : change_array(of_array, what, call);
  if (!done) return answer.send(refusal(done.error()));
  changed_.push_back({id, asker(call, answer)});
}

void Api::rerun(JobId id, const Call& call, const Answer& answer) {
  const auto next = execution_.rerun(id, caller_of(call));
  if (!next) return answer.send(refusal(next.error()));
  changed_.push_back({*next, asker(call, answer)});
}

Status Api::change_one(JobId id, std::string_view what, const Call& call) {
  if (what == "cancel") return execution_.cancel(id, caller_of(call));
  if (what == "hold" || what == "release")
    return execution_.hold(id, what == "hold", caller_of(call));
  if (what == "edit") {
    const auto changes = broker::changes_of(call.body);
    return changes ? execution_.edit(id, *changes, caller_of(call)) : Status(changes.error());
  }
  if (what == "owners" || what == "enter" || what == "end" || what == "report" ||
      what == "next-try" || what == "hang")
    return change_running(id, what, call);
  return no_such_place(call);
}

/// Applies the change to each job of the array, in ascending order. Cancel and hold use the
/// opposite order, because a cancelled or held first job would let the next job start.
Status Api::change_array(const std::set<JobId>& jobs, std::string_view what, const Call& call) {
  std::vector<JobId> order(jobs.begin(), jobs.end());
  if (what == "cancel" || what == "hold") std::reverse(order.begin(), order.end());
  Status refused = Done{};
  bool any = false;
  for (const JobId id : order) {
    Status done = change_one(id, what, call);
    any = any || done;
    if (!done) refused = std::move(done);
  }
  return any ? Status(Done{}) : refused;
}

Status Api::change_running(JobId id, std::string_view what, const Call& call) {
  const Job* job = execution_.broker().job(id);
  if (job == nullptr) return no_such_job(id);
  if (job->uid != call.peer.uid && call.peer.uid != 0) return broker::not_yours(*job);
  if (what == "report") return execution_.keep_report(*job, call.body);
  if (what == "next-try") {
    auto next = broker::next_try_of(call.body);
    return next ? execution_.set_next_try(id, *std::move(next)) : Status(std::move(next).error());
  }
  if (what == "hang") {
    auto hang = broker::hang_of(call.body);
    if (!hang) return std::move(hang).error();
    execution_.set_hang(id, *std::move(hang));
    return Done{};
  }
  const auto submitted = broker::running_change_of(call.body, what);
  if (!submitted) return submitted.error();
  if (what == "end") {
    execution_.give_back(id, submitted->outcome, submitted->usage,
                         stuck_of(submitted->stuck, job->uid));
    return Done{};
  }
  const auto owners = owners_of(*submitted, call);
  if (!owners) return owners.error();
  if (what == "enter") return execution_.enter(id, *owners, call.peer.uid);
  execution_.set_owners(id, *owners);
  return Done{};
}

void Api::tell(const std::set<JobId>& changed) {
  tell_listeners(changed);
  std::vector<decltype(waiting_)::node_type> told;
  for (const JobId id : changed)
    for (auto at = waiting_.find(id); at != waiting_.end(); at = waiting_.find(id))
      told.push_back(waiting_.extract(at));
  for (const auto& one : told)
    if (one.mapped().answer.is_wanted()) show(one.key(), one.mapped().call, one.mapped().answer);
}

}  // namespace berth::serve
