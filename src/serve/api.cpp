#include "serve/api.hpp"

#include <algorithm>
#include <chrono>

#include "base/text.hpp"
#include "broker/job_record.hpp"
#include "output/jobs_json.hpp"
#include "output/json.hpp"
#include "serve/refusal.hpp"

namespace berth::serve {
namespace {

using broker::Caller;
using model::Job;
using model::JobId;
using model::JobState;

Caller caller_of(const Call& call) {
  return {call.peer.uid, call.peer.uid == 0};
}

output::ShownJob shown(const Job& job, const Call& call) {
  return {&job, call.peer.uid == job.uid || call.peer.uid == 0};
}

Error not_theirs(std::int64_t pid) {
  return {ErrorCode::kPermissionDenied, "E0912", text("process {} is not there, or not yours", pid),
          ""};
}

/// A lease lives as long as the processes that it is for, which must be the caller's own.
Result<std::vector<model::ProcessId>> owners_of(const Job& asked, const Call& call) {
  std::vector<model::ProcessId> owners;
  for (const model::ProcessId& one : asked.owners) {
    const auto ticks = start_ticks_of(one.pid);
    if (!ticks || (uid_of(one.pid) != call.peer.uid && call.peer.uid != 0))
      return not_theirs(one.pid);
    owners.push_back({one.pid, *ticks});
  }
  if (owners.empty() && !asked.queued) {
    const auto ticks = start_ticks_of(call.peer.pid);
    if (!ticks) return not_theirs(call.peer.pid);
    owners.push_back({call.peer.pid, *ticks});
  }
  return owners;
}

/// What is asked for; who asks the kernel says, and what they get, the broker.
Job job_from(Job asked, const Call& call) {
  Job job;
  job.uid = call.peer.uid;
  job.name = std::move(asked.name);
  job.request = std::move(asked.request);
  job.command = std::move(asked.command);
  job.queued = asked.queued;
  job.priority = std::clamp(asked.priority, -1000, 1000);
  job.tier = call.peer.uid == 0 ? std::clamp(asked.tier, -1, 1) : std::min(asked.tier, 0);
  job.time_limit = asked.time_limit;
  job.after = std::move(asked.after);
  if (asked.state == JobState::kHeld) job.state = JobState::kHeld;
  return job;
}

}  // namespace

void Api::act(const Call& call, const Answer& answer) {
  const auto parts = split(std::string_view(call.path).substr(call.path.empty() ? 0 : 1), '/');
  const auto number = parts.size() > 2 ? to_number(parts[2]).value_or(-1) : -1;
  const auto id = number >= 0 ? std::optional(static_cast<JobId>(number)) : std::nullopt;
  const bool is_jobs = parts.size() >= 2 && parts[0] == "v1" && parts[1] == "jobs";
  const bool is_get = call.method == "GET";
  const bool is_post = call.method == "POST";
  if (is_jobs && parts.size() == 2 && is_post) return submit(call, answer);
  if (is_jobs && parts.size() == 2 && is_get) return list(call, answer);
  if (is_jobs && id && parts.size() == 3 && is_get) return show(*id, call, answer);
  if (is_jobs && id && parts.size() == 4 && parts[3] == "why" && is_get)
    return outlook(*id, answer);
  if (is_jobs && id && parts.size() == 4 && is_post) return change(*id, parts[3], call, answer);
  if (is_get && call.path == "/v1/machine")
    return answer.send({200, output::ls_json(execution_.broker().snapshot())});
  answer.send(refusal(no_such_place(call)));
}

void Api::submit(const Call& call, const Answer& answer) {
  auto asked = broker::job_of(call.body);
  if (!asked) return answer.send(refusal(asked.error()));
  auto owners = owners_of(*asked, call);
  if (!owners) return answer.send(refusal(owners.error()));
  Job job = job_from(*std::move(asked), call);
  job.user = users_.of(call.peer.uid);
  job.owners = *std::move(owners);
  const auto id = execution_.submit(std::move(job), call);
  if (!id) return answer.send(refusal(id.error()));
  if (execution_.settle())
    show(*id, call, answer);
  else
    answer.send(refusal(*execution_.fault()));
}

void Api::list(const Call& call, const Answer& answer) {
  std::vector<output::ShownJob> all;
  const std::int64_t since = now().unix_milliseconds - 24LL * 3600 * 1000;
  for (const auto& [id, job] : execution_.broker().jobs())
    if (call.query.contains("all") || !model::has_ended(job.state) ||
        job.ended_unix_milliseconds.value_or(0) > since)
      all.push_back(shown(job, call));
  answer.send({200, output::jobs_json(all, execution_.broker().elsewhere())});
}

/// With ?wait=started or ?wait=ended the answer comes when that is so.
void Api::show(JobId id, const Call& call, const Answer& answer) {
  const Job* job = execution_.broker().job(id);
  if (job == nullptr) return answer.send(refusal(no_such_job(id)));
  const auto wait = call.query.find("wait");
  const bool is_over = model::has_ended(job->state);
  const bool is_so = wait == call.query.end() || is_over ||
                     (wait->second == "started" && job->state == JobState::kRunning);
  if (!is_so) {
    waiting_.push_back({id, call, answer});
    return;
  }
  const int status = call.method == "POST" && call.path.ends_with("/jobs") ? 201 : 200;
  answer.send({status, output::job_json(shown(*job, call))});
}

/// What a job that waits is waiting for: who stands before it is no secret.
void Api::outlook(JobId id, const Answer& answer) {
  if (execution_.broker().job(id) == nullptr) return answer.send(refusal(no_such_job(id)));
  output::JobOutlook out;
  const broker::Now at = now();
  const policy::Queue& queue = execution_.broker().queue();
  const auto wall = [&](policy::Instant then) {
    return at.unix_milliseconds +
           std::chrono::duration_cast<std::chrono::milliseconds>(then - at.steady).count();
  };
  if (const policy::WaitingJob* waiting = queue.waiting(id)) {
    const auto seen = queue.outlook(id, at.steady);
    out.obstruction = policy::name(seen.obstruction);
    out.before = seen.before;
    if (const auto fits = queue.fits_at(waiting->demand, at.steady)) out.fits_at = wall(*fits);
    for (const auto& one : queue.releases(at.steady))
      out.releases.push_back({one.job, wall(one.at), one.by_limit});
  }
  answer.send({200, output::outlook_json(out)});
}

void Api::change(JobId id, std::string_view what, const Call& call, const Answer& answer) {
  const Caller caller = caller_of(call);
  Status done = Done{};
  if (what == "cancel")
    done = execution_.cancel(id, caller);
  else if (what == "hold" || what == "release")
    done = execution_.hold(id, what == "hold", caller);
  else if (what == "owners" || what == "enter" || what == "end")
    done = change_running(id, what, call);
  else
    done = no_such_place(call);
  if (!done) return answer.send(refusal(done.error()));
  if (execution_.settle())
    show(id, call, answer);
  else
    answer.send(refusal(*execution_.fault()));
}

Status Api::change_running(JobId id, std::string_view what, const Call& call) {
  const Job* job = execution_.broker().job(id);
  if (job == nullptr || (job->uid != call.peer.uid && call.peer.uid != 0)) return no_such_job(id);
  const auto asked = broker::job_of(call.body);
  if (!asked) return asked.error();
  if (what == "end") {
    execution_.give_back(id, asked->outcome);
    return Done{};
  }
  const auto owners = owners_of(*asked, call);
  if (!owners) return owners.error();
  if (what == "enter") return execution_.enter(id, *owners, call.peer.uid);
  execution_.set_owners(id, *owners);
  return Done{};
}

void Api::tell(const std::set<JobId>& changed) {
  std::list<Waiting> now_told;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto next = std::next(at);
    if (changed.contains(at->job) || !at->answer.is_wanted())
      now_told.splice(now_told.end(), waiting_, at);
    at = next;
  }
  for (const Waiting& one : now_told)
    if (one.answer.is_wanted()) show(one.job, one.call, one.answer);
}

}  // namespace berth::serve
