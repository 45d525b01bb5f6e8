#include "serve/daemon.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <chrono>
#include <list>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "broker/broker.hpp"
#include "broker/job_record.hpp"
#include "broker/journal.hpp"
#include "output/jobs_json.hpp"
#include "serve/device_locks.hpp"
#include "serve/launcher.hpp"
#include "serve/observer.hpp"
#include "serve/refusal.hpp"
#include "serve/server.hpp"
#include "serve/watches.hpp"
#include "system/process.hpp"

namespace berth::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using broker::Broker;
using broker::Journal;
using broker::Now;
using model::Job;
using model::JobId;
using model::JobState;
using std::chrono::milliseconds;

/// A look at the machine serves that long: longer, and somebody may have come meanwhile.
constexpr milliseconds kFresh(2000);

Now now() {
  using std::chrono::duration_cast;
  return {duration_cast<milliseconds>(std::chrono::steady_clock::now().time_since_epoch()),
          duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count()};
}

class Daemon {
 public:
  Daemon(const DaemonOptions& options, Journal journal, Launcher launcher)
      : options_(options),
        journal_(std::move(journal)),
        launcher_(std::move(launcher)),
        users_("/etc"),
        signals_(loop_, SIGTERM, SIGINT),
        tick_(loop_),
        syncing_(1),
        observer_(options.sources, [this](Look look) {
          asio::post(loop_, [this, look = std::move(look)]() mutable { seen(std::move(look)); });
        }) {}

  Status run(const std::function<void()>& ready) {
    auto server =
        Server::listen(loop_, options_.socket, options_.for_all,
                       [this](Call call, const Answer& answer) { take(std::move(call), answer); });
    if (!server) return server.error();
    server_ = *std::move(server);
    signals_.async_wait([this](error_code problem, int) {
      if (!problem) loop_.stop();
    });
    // What was running is looked after first; nothing is answered before.
    look();
    ready_ = ready;
    tick();
    loop_.run();
    syncing_.join();
    journal_.sync();
    return fault_ ? Status(*fault_) : Status(Done{});
  }

 private:
  // The machine.

  void look() {
    if (looking_) return;
    looking_ = true;
    observer_.ask(watches_.roots());
  }

  void seen(Look look) {
    looking_ = false;
    seen_at_ = now().steady;
    broker_.see(std::move(look.snapshot), std::move(look.processes));
    if (!is_restored_) restore();
    for (auto& [call, answer] : std::exchange(held_, {})) act(call, answer);
    settle();
  }

  void restore() {
    is_restored_ = true;
    auto jobs = journal_.jobs();
    if (!jobs) return stop_with(jobs.error());
    for (const Job& job : *jobs) broker_.restore(job, now());
    for (const Job& job : *jobs)
      if (job.state == JobState::kRunning) find_again(job);
    if (ready_) ready_();
  }

  void find_again(const Job& job) {
    if (!job.owners.empty() || !job.queued) return watches_.watch(job.id, job.owners);
    // It was written down that it runs; whether it was started its folder knows.
    const auto keeper = launcher_.keeper(job.id);
    if (!keeper) return launch(job.id);
    broker_.set_owners(job.id, {*keeper});
    watches_.watch(job.id, {*keeper});
  }

  void stop_with(const Error& error) {
    fault_ = error;
    loop_.stop();
  }

  // Calls.

  void take(Call call, const Answer& answer) {
    last_call_ = now().steady;
    const bool needs_look = call.method == "POST" && now().steady - seen_at_ > kFresh;
    if (is_restored_ && !needs_look) return act(call, answer);
    held_.emplace_back(std::move(call), answer);
    look();
  }

  void act(const Call& call, const Answer& answer) {
    const auto parts = split(std::string_view(call.path).substr(call.path.empty() ? 0 : 1), '/');
    const auto number = parts.size() > 2 ? to_number(parts[2]).value_or(-1) : -1;
    const auto id = number >= 0 ? std::optional(static_cast<JobId>(number)) : std::nullopt;
    const bool is_jobs = parts.size() >= 2 && parts[0] == "v1" && parts[1] == "jobs";
    if (is_jobs && parts.size() == 2 && call.method == "POST") return submit(call, answer);
    if (is_jobs && parts.size() == 2 && call.method == "GET") return list(call, answer);
    if (is_jobs && id && parts.size() == 3 && call.method == "GET") return show(*id, call, answer);
    if (is_jobs && id && parts.size() == 4 && parts[3] == "why" && call.method == "GET")
      return outlook(*id, answer);
    if (is_jobs && id && parts.size() == 4 && call.method == "POST")
      return change(*id, parts[3], call, answer);
    answer.send(refusal(no_such_place(call)));
  }

  [[nodiscard]] static broker::Caller caller_of(const Call& call) {
    return {call.peer.uid, call.peer.uid == 0};
  }

  [[nodiscard]] output::ShownJob shown(const Job& job, const Call& call) const {
    return {&job, call.peer.uid == job.uid || call.peer.uid == 0};
  }

  void submit(const Call& call, const Answer& answer) {
    auto asked = broker::job_of(call.body);
    if (!asked) return answer.send(refusal(asked.error()));
    const auto owners = owners_of(*asked, call);
    if (!owners) return answer.send(refusal(owners.error()));
    // Who they are the kernel says; what they have, the broker.
    Job job;
    job.uid = call.peer.uid;
    job.user = users_.of(call.peer.uid);
    job.name = std::move(asked->name);
    job.request = std::move(asked->request);
    job.command = std::move(asked->command);
    job.queued = asked->queued;
    job.priority = std::clamp(asked->priority, -1000, 1000);
    job.tier = call.peer.uid == 0 ? std::clamp(asked->tier, -1, 1) : std::min(asked->tier, 0);
    job.time_limit = asked->time_limit;
    job.after = std::move(asked->after);
    job.owners = *owners;
    if (asked->state == JobState::kHeld) job.state = JobState::kHeld;
    const bool job_is_queued = job.queued;
    if (job_is_queued) {
      job.id = broker_.next_id();
      job.log = launcher_.log(job.id);
      if (auto ready = launcher_.prepare(job, call); !ready)
        return answer.send(refusal(ready.error()));
    }
    const auto id = broker_.submit(std::move(job), now());
    if (!id) return answer.send(refusal(id.error()));
    if (!job_is_queued) watches_.watch(*id, *owners);
    if (settle())
      show(*id, call, answer);
    else
      answer.send(refusal(*fault_));
  }

  /// A lease lives as long as the processes that it is for, which must be the caller's own.
  [[nodiscard]] Result<std::vector<model::ProcessId>> owners_of(const Job& asked,
                                                                const Call& call) const {
    std::vector<model::ProcessId> owners;
    for (const model::ProcessId& one : asked.owners) {
      const auto ticks = start_ticks_of(one.pid);
      if (!ticks || (uid_of(one.pid) != call.peer.uid && call.peer.uid != 0))
        return Error{ErrorCode::kPermissionDenied, "E0912",
                     text("process {} is not there, or not yours", one.pid), ""};
      owners.push_back({one.pid, *ticks});
    }
    if (owners.empty() && !asked.queued) {
      const auto ticks = start_ticks_of(call.peer.pid);
      if (!ticks)
        return Error{ErrorCode::kPermissionDenied, "E0912",
                     text("process {} is not there, or not yours", call.peer.pid), ""};
      owners.push_back({call.peer.pid, *ticks});
    }
    return owners;
  }

  void list(const Call& call, const Answer& answer) {
    std::vector<output::ShownJob> all;
    const std::int64_t since = now().unix_milliseconds - 24LL * 3600 * 1000;
    for (const auto& [id, job] : broker_.jobs())
      if (call.query.contains("all") || !model::has_ended(job.state) ||
          job.ended_unix_milliseconds.value_or(0) > since)
        all.push_back(shown(job, call));
    answer.send({200, output::jobs_json(all, broker_.elsewhere())});
  }

  /// With ?wait=started or ?wait=ended the answer comes when that is so.
  void show(JobId id, const Call& call, const Answer& answer) {
    const Job* job = broker_.job(id);
    if (job == nullptr) return answer.send(refusal(no_such_job(id)));
    const auto wait = call.query.find("wait");
    const bool is_over = model::has_ended(job->state);
    const bool is_so = wait == call.query.end() || is_over ||
                       (wait->second == "started" && job->state == JobState::kRunning);
    if (!is_so) {
      waiting_.emplace_back(id, Waiting{call, answer});
      return;
    }
    const int status = call.method == "POST" && call.path.ends_with("/jobs") ? 201 : 200;
    answer.send({status, output::job_json(shown(*job, call))});
  }

  /// What a job that waits is waiting for: who stands before it is no secret.
  void outlook(JobId id, const Answer& answer) {
    const Job* job = broker_.job(id);
    if (job == nullptr) return answer.send(refusal(no_such_job(id)));
    output::JobOutlook out;
    const Now at = now();
    const auto wall = [&](policy::Instant then) {
      return at.unix_milliseconds +
             std::chrono::duration_cast<milliseconds>(then - at.steady).count();
    };
    if (const policy::WaitingJob* waiting = broker_.queue().waiting(id)) {
      const auto seen = broker_.queue().outlook(id, at.steady);
      out.obstruction = policy::name(seen.obstruction);
      out.before = seen.before;
      if (const auto fits = broker_.queue().fits_at(waiting->demand, at.steady))
        out.fits_at = wall(*fits);
      for (const auto& one : broker_.queue().releases(at.steady))
        out.releases.push_back({one.job, wall(one.at), one.by_limit});
    }
    answer.send({200, output::outlook_json(out)});
  }

  void change(JobId id, std::string_view what, const Call& call, const Answer& answer) {
    const broker::Caller caller = caller_of(call);
    Status done = Done{};
    if (what == "cancel")
      done = cancel(id, call);
    else if (what == "hold")
      done = broker_.hold(id, true, caller, now());
    else if (what == "release")
      done = broker_.hold(id, false, caller, now());
    else if (what == "owners" || what == "end")
      done = change_running(id, what, call);
    else
      done = no_such_place(call);
    if (!done) return answer.send(refusal(done.error()));
    if (settle())
      show(id, call, answer);
    else
      answer.send(refusal(*fault_));
  }

  Status change_running(JobId id, std::string_view what, const Call& call) {
    const Job* job = broker_.job(id);
    if (job == nullptr || (job->uid != call.peer.uid && call.peer.uid != 0)) return no_such_job(id);
    const auto asked = broker::job_of(call.body);
    if (!asked) return asked.error();
    if (what == "owners") {
      const auto owners = owners_of(*asked, call);
      if (!owners) return owners.error();
      broker_.set_owners(id, *owners);
      watches_.watch(id, *owners);
      return Done{};
    }
    const bool is_good = asked->outcome && asked->outcome->kind == model::OutcomeClass::kOk;
    broker_.end(id, is_good ? JobState::kDone : JobState::kFailed, asked->outcome, "", now());
    watches_.forget(id);
    stopped_.erase(id);
    return Done{};
  }

  // What follows from a change.

  /// Starts what fits, writes it all down, and tells those who wait. False where it could not be
  /// written: nothing of it is told then, and the daemon ends, to begin again from the journal.
  bool settle() {
    for (;;) {
      if (broker_.queue().waiting_count() > 0) broker_.set_elsewhere(locks_.take(broker_.units()));
      const auto started = broker_.start_what_fits(now());
      locks_.keep(leased_units());
      const auto changed = broker_.changed();
      if (changed.empty()) return true;
      std::vector<const Job*> rows;
      rows.reserve(changed.size());
      for (const JobId id : changed) rows.push_back(broker_.job(id));
      const auto written = journal_.write(rows);
      if (!written) {
        stop_with(written.error());
        return false;
      }
      is_dirty_ = true;
      for (const JobId id : changed) tell(id);
      // Only what is written down may run: a broker that follows this one would start it again.
      for (const JobId id : started)
        if (broker_.job(id)->queued) launch(id);
    }
  }

  [[nodiscard]] std::vector<std::string> leased_units() const {
    std::vector<std::string> units;
    for (const model::Holding& one : broker_.ledger().holdings)
      if (one.job != 0) units.push_back(one.unit);
    return units;
  }

  void tell(JobId id) {
    std::list<std::pair<JobId, Waiting>> mine;
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      const auto next = std::next(at);
      if (at->first == id || !at->second.answer.is_wanted()) mine.splice(mine.end(), waiting_, at);
      at = next;
    }
    for (const auto& [job, one] : mine)
      if (one.answer.is_wanted()) show(job, one.call, one.answer);
  }

  // The processes of jobs.

  void all_gone(JobId id) {
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

  void end_lost(JobId id) {
    stopped_.erase(id);
    broker_.end(id, JobState::kLost, {},
                std::string(tr("its processes are gone, and nobody said how they ended")), now());
  }

  /// What it wrote last, or who kept the job in its place (two may be started for one job where the
  /// broker died in between; the first keeps it).
  void keeper_gone(const Job& job) {
    const JobId id = job.id;
    if (const auto outcome = launcher_.outcome(id)) {
      const auto told = stopped_.extract(id);
      const bool is_good = outcome->kind == model::OutcomeClass::kOk;
      const JobState state = !told.empty() ? told.mapped().state
                             : is_good     ? JobState::kDone
                                           : JobState::kFailed;
      return broker_.end(id, state, outcome, told.empty() ? "" : told.mapped().why, now());
    }
    const auto keeper = launcher_.keeper(id);
    const bool lives = keeper && start_ticks_of(keeper->pid) == keeper->start_ticks;
    if (!lives) return end_lost(id);
    broker_.set_owners(id, {*keeper});
    watches_.watch(id, {*keeper});
  }

  /// Starts what the broker starts itself; what cannot start has ended.
  void launch(JobId id) {
    const Job& job = *broker_.job(id);
    const auto keeper = launcher_.start_job(job, broker_.snapshot());
    if (!keeper) {
      model::Outcome none;
      return broker_.end(id, JobState::kFailed, none, keeper.error().message, now());
    }
    broker_.set_owners(id, {*keeper});
    watches_.watch(id, {*keeper});
  }

  /// Who ended a running job, and why: until its keeper has.
  struct Stopped {
    JobState state = JobState::kCancelled;
    std::string why;
  };

  void stop(JobId id, Stopped how) {
    if (!watches_.signal(id, SIGTERM)) return;
    stopped_.insert_or_assign(id, std::move(how));
  }

  Status cancel(JobId id, const Call& call) {
    const Job* job = broker_.job(id);
    const broker::Caller caller = caller_of(call);
    const bool runs = job != nullptr && job->state == JobState::kRunning;
    if (!runs || (!caller.admin && caller.uid != job->uid))
      return broker_.cancel(id, caller, now());
    stop(id, {});
    return Done{};
  }

  void stop_what_is_over_its_limit() {
    const auto at = now();
    for (const JobRoot& root : watches_.roots()) {
      const Job* job = broker_.job(root.job);
      if (job == nullptr || !job->time_limit || !job->started_unix_milliseconds) continue;
      if (at.unix_milliseconds - *job->started_unix_milliseconds < job->time_limit->count())
        continue;
      stop(root.job, {JobState::kFailed,
                      text("its time limit of {} was over", show_duration(*job->time_limit))});
    }
  }

  // Time.

  void tick() {
    tick_.expires_after(std::chrono::seconds(1));
    tick_.async_wait([this](error_code problem) {
      if (problem) return;
      if (is_dirty_) {
        is_dirty_ = false;
        asio::post(syncing_, [this] { journal_.sync(); });
        journal_.tidy();
      }
      stop_what_is_over_its_limit();
      if (now().steady - forgot_at_ > std::chrono::minutes(1)) forget_old();
      if (broker_.queue().waiting_count() > 0 && now().steady - seen_at_ > kFresh) look();
      const bool is_idle = broker_.queue().waiting_count() + broker_.queue().running_count() == 0;
      if (options_.idle_seconds > 0 && is_idle &&
          now().steady - last_call_ > std::chrono::seconds(options_.idle_seconds))
        return loop_.stop();
      tick();
    });
  }

  /// What ended long ago, with its output.
  void forget_old() {
    forgot_at_ = now().steady;
    const auto gone = broker_.forget_ended_before(now().unix_milliseconds - options_.keep.count());
    if (gone.empty()) return;
    if (auto written = journal_.write({}, gone); !written) return stop_with(written.error());
    for (const JobId id : gone) launcher_.forget(id);
    is_dirty_ = true;
  }

  struct Waiting {
    Call call;
    Answer answer;
  };

  const DaemonOptions& options_;
  asio::io_context loop_{1};
  Broker broker_{options_.rules};
  Journal journal_;
  Launcher launcher_;
  DeviceLocks locks_{options_.lock_folder};
  Watches watches_{loop_, [this](JobId id) { all_gone(id); }};
  std::map<JobId, Stopped> stopped_;
  system::UserNames users_;
  std::unique_ptr<Server> server_;
  asio::signal_set signals_;
  asio::steady_timer tick_;
  asio::thread_pool syncing_;
  std::function<void()> ready_;
  std::vector<std::pair<Call, Answer>> held_;  // until the machine was looked at
  std::list<std::pair<JobId, Waiting>> waiting_;
  std::optional<Error> fault_;
  policy::Instant seen_at_{-1'000'000}, forgot_at_{-1'000'000}, last_call_ = now().steady;
  bool looking_ = false, is_restored_ = false, is_dirty_ = false;
  Observer observer_;  // last: its thread ends before what it tells is gone
};

}  // namespace

Status run_daemon(const DaemonOptions& options, const std::function<void()>& ready) {
  auto launcher = Launcher::start(options.state_folder, options.for_all);
  if (!launcher) return std::move(launcher).error();
  auto journal = Journal::open(options.state_folder);
  if (!journal) return std::move(journal).error();
  Daemon daemon(options, *std::move(journal), *std::move(launcher));
  return daemon.run(ready);
}

}  // namespace berth::serve
