// Execution: carries out the broker's decisions and reports the results to it. Every change is in
// the journal before anyone learns of it, and before a job is started or ended on request. If the
// journal cannot be written (the disk is full), there is a fault(): the state goes back to what was
// written, nothing new is accepted or started, and running jobs are still handled until a write
// succeeds.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "broker/broker.hpp"
#include "broker/journal.hpp"
#include "serve/daemon.hpp"
#include "serve/fence.hpp"
#include "serve/hang_reports.hpp"
#include "serve/job_partitions.hpp"
#include "serve/launcher.hpp"
#include "serve/notices.hpp"
#include "serve/observer.hpp"
#include "serve/other_brokers.hpp"
#include "serve/past_use.hpp"
#include "serve/retention.hpp"
#include "serve/server.hpp"
#include "serve/stopped_jobs.hpp"
#include "serve/wall_clock.hpp"
#include "serve/watches.hpp"
#include "watch/job_hang.hpp"

namespace berth::serve {

/// The monotonic clock for durations, and the wall clock for times that people read.
[[nodiscard]] broker::Now now();

class Execution {
 public:
  /// `changed`: called with the changed jobs after they are in the journal.
  Execution(boost::asio::io_context& loop, const DaemonOptions& options, broker::Journal journal,
            Launcher launcher, std::optional<Fence> fence,
            std::function<void(const std::set<model::JobId>&)> changed);

  [[nodiscard]] const broker::Broker& broker() const { return broker_; }
  [[nodiscard]] const std::optional<Error>& fault() const { return fault_; }
  /// Messages for users: for example, the journal cannot be written or was lost.
  [[nodiscard]] std::vector<Error> notices() const;
  /// Processes whose descendants belong to jobs.
  [[nodiscard]] std::vector<JobRoot> roots() const { return watches_.roots(); }
  /// The path of a queued job's log; "" for other jobs.
  [[nodiscard]] std::string log_of(const model::Job& job) const {
    return job.queued ? launcher_.log(job.id) : "";
  }
  /// The report of the job's last run, in the format of output::stored_report. A job that waits
  /// again also has one. "": there is none.
  [[nodiscard]] std::string report_of(const model::Job& job) const {
    return launcher_.report(job.id, job.outcome ? job.outcome : job.last_outcome);
  }
  /// Stores the report that `berth run` made about its job. Fails with kRefused (E1083) if the job
  /// runs or was queued, because its own keeper writes that report; with kInvalidArgument (E1084)
  /// if this is not a report; and with kUnavailable (E1085) if it cannot be written.
  [[nodiscard]] Status keep_report(const model::Job& job, const std::string& stored);
  /// At most `most` bytes of the job's log, starting at `from`, and the offset of the rest.
  [[nodiscard]] run::OutputPart output_of(const model::Job& job, std::int64_t from,
                                          std::size_t most) const {
    return job.queued ? launcher_.output(job.id, from, most) : run::OutputPart{"", from};
  }

  /// The device nodes of the machine's GPUs, if the kernel lets jobs open only their own GPUs.
  [[nodiscard]] const model::GpuNodes& nodes() const;

  /// The monotonic time for the queue, and the wall-clock time for job records.
  [[nodiscard]] broker::Now now() const { return {serve::now().steady, clock_.now()}; }

  /// `began`: when the snapshot was started. Jobs whose pause was over by then are queued.
  void see(Look look, policy::Instant began);
  /// Whether the system broker runs, so that this broker starts nothing.
  [[nodiscard]] bool gives_way() const { return others_.gives_way(); }
  /// Loads the journal. Call it once, after the first see().
  void restore();
  /// Starts the jobs that fit, writes changes to the journal and reports them. False if there is a
  /// fault.
  bool settle();
  /// After a fault: discards everything that was not written.
  void go_back();
  /// Tries to write the journal. True: it works again, and the fault is cleared.
  bool retry();

  // The next functions handle requests of callers; call settle() after each. The kernel has
  // identified the caller.

  /// The job's user and owners are already set. Fails with the errors of Broker::submit() and
  /// Launcher::prepare().
  [[nodiscard]] Result<model::JobId> submit(const broker::Submission& asked, const Peer& peer);
  /// Returns the array's id. Fails with the errors of submit().
  [[nodiscard]] Result<model::JobId> submit_array(const broker::Submission& asked,
                                                  const model::ArrayRange& range, const Peer& peer);
  /// Cancels a waiting job, or tells a running job to end. Fails with the errors of
  /// Broker::cancel().
  [[nodiscard]] Status cancel(model::JobId id, broker::Caller caller);
  /// Does the same as Broker::withdraw(), but only for a call from one of the job's own processes.
  /// Also deletes what was stored about the job.
  [[nodiscard]] std::optional<model::Job> withdraw(model::JobId id, const Peer& peer);
  /// Holds or releases a waiting job. Fails with the errors of Broker::hold().
  [[nodiscard]] Status hold(model::JobId id, bool held, broker::Caller caller);
  void set_owners(model::JobId id, const std::vector<model::ProcessId>& owners);
  /// Moves processes of this user into the job's control group; they become owners of the lease.
  /// Fails with the errors of Fence::admit(), and with kUnsupported (E0941) if the job has no
  /// group.
  [[nodiscard]] Status enter(model::JobId id, const std::vector<model::ProcessId>& processes,
                             std::uint32_t user);
  /// Starts or ends the draining or the loan of a unit, and writes this to the journal immediately.
  /// Fails with the errors of Broker::drain(), Broker::lend() and Journal::write().
  [[nodiscard]] Status drain(const broker::UnitCall& device, bool drained);
  /// Changes a job. Fails with the errors of Broker::edit().
  [[nodiscard]] Status edit(model::JobId id, const broker::Changes& changes,
                            const broker::Caller& caller);
  /// Submits a copy of this job. Fails with the errors of submit(), and with kNotFound (E0517).
  [[nodiscard]] Result<model::JobId> rerun(model::JobId id, const broker::Caller& caller);
  /// Does the same as Broker::set_next_try(), and fails with the same errors.
  [[nodiscard]] Status set_next_try(model::JobId id, model::QueuedTry next);
  /// Ends a lease at the request of its owner.
  void give_back(model::JobId id, const std::optional<model::Outcome>& outcome,
                 const model::JobUsage& usage, const std::vector<model::ProcessId>& stuck = {});

  /// Stores a report of `berth run` about where the job's ranks hang; "": they do not hang.
  void set_hang(model::JobId id, std::string sentence) {
    hangs_.set(id, std::move(sentence), now().steady);
  }
  /// The running jobs whose ranks hang, according to reports of `berth run` in the last two
  /// minutes.
  [[nodiscard]] watch::ReportedHangs hangs();

  // The next functions are called periodically.

  /// Restores the device filters of jobs if they were removed; see Fence::keep().
  [[nodiscard]] std::vector<std::string> keep_fences();
  /// Call it when the daemon ends because the machine shuts down. See let_jobs_save() in
  /// shutdown.hpp.
  void let_jobs_save();
  /// Call it when the daemon ends; jobs continue to run.
  void leave() const;
  /// The next time at which a job reaches its time limit, the warning before it, or the end of its
  /// pause. At the end of a pause, take a new snapshot. In the other cases, call mind_time().
  [[nodiscard]] std::optional<policy::Instant> next_limit() const;
  /// Ends jobs over their time limit, and moves jobs to the CPU that have waited long enough.
  void mind_time();
  /// If the wall clock was set, moves the recorded times of jobs by the same amount.
  void mind_clock();
  /// Saves the users' past use for the next broker.
  void keep_shares();
  /// Limits the disk space of the output of running jobs. See Retention::limit_running.
  void limit_output();
  /// Deletes jobs that ended long ago, together with their output. If a limit is still exceeded,
  /// deletes the oldest of the other ended jobs.
  void forget_old();
  /// Whether something was written but not yet synced. Calling this function resets the flag.
  [[nodiscard]] bool is_dirty() { return std::exchange(is_dirty_, false); }
  /// May be called from another thread.
  void sync() const { journal_.sync(); }
  void tidy(bool is_quiet) { journal_.tidy(is_quiet); }
  /// Copies a part of the journal to its daily copy. Call it every second.
  void keep_daily_copy() { journal_.keep_daily_copy(now().unix_milliseconds); }

 private:
  void restore_drained();
  void bring_back(const std::vector<model::Job>& jobs);
  void take_over(const std::vector<model::Job>& jobs, bool is_restarted);
  void adopt_unknown(std::vector<model::Job>& jobs, const std::vector<model::JobId>& unreadable);
  void clean_up_groups(const std::set<model::JobId>& running);
  void forget_all();
  void know_user(const model::Job& job);
  [[nodiscard]] Status keep_launch(const broker::Submission& asked, const Peer& peer);
  [[nodiscard]] Result<run::Launch> launch_of(const model::Job& job);
  void find_again(const model::Job& job, bool is_restarted);
  void enclose(model::JobId id);
  /// Lets the driver limit the memory of the job's control group, if it can.
  void limit_memory(model::JobId id);
  [[nodiscard]] Status save_partitions(const std::string& record);
  void end(model::JobId id, model::JobState state, const std::optional<model::Outcome>& outcome,
           std::string why);
  [[nodiscard]] std::vector<std::string> leased_units() const;
  void all_gone(model::JobId id);
  void end_lost(model::JobId id);
  void set_aside(model::JobId id, std::vector<model::ProcessId> stuck);
  void end_aside();
  void keeper_gone(const model::Job& job);
  void launch_soon(model::JobId id);
  void launch_next();
  void launch(model::JobId id);
  void stop(model::JobId id, const model::ToldToEnd& how);
  void tell_stopped();
  void fail(Error error);
  void notice(std::string id, std::string sentence, std::string hint);
  /// If someone asked to end the job, the reason for that; if nobody asked, `else_so`.
  [[nodiscard]] model::ToldToEnd how_stopped(model::JobId id, const model::ToldToEnd& else_so);
  void stop_what_is_over_its_limit();
  void warn_before_limit(const model::Job& job, policy::Instant limit_at);

  // Keys of values in the journal.
  static constexpr const char *kDrained = "drained", *kLent = "lent", *kShares = "shares",
                              *kClock = "clock", *kTried = "tried", *kForgotten = "forgotten",
                              *kHighest = "highest", *kNotices = "notices", *kMig = "mig",
                              *kAside = "aside";

  boost::asio::io_context& loop_;
  const DaemonOptions& options_;
  broker::Broker broker_{options_.settings.rules};
  broker::Journal journal_;
  Launcher launcher_;
  std::optional<Fence> fence_;
  JobPartitions partitions_;
  std::string kept_aside_ = "[]";  // the units set aside, as last written to the journal
  std::vector<std::string> notes_;
  OtherBrokers others_{options_};
  Watches watches_;
  std::function<void(const std::set<model::JobId>&)> changed_;
  /// A cache of the launch record used last. Jobs of an array share one record, and most other jobs
  /// start as soon as they are submitted.
  std::pair<model::JobId, run::Launch> last_launch_;
  std::deque<model::JobId> to_launch_;
  StoppedJobs stopped_;
  std::map<model::JobId, policy::Instant>
      told_by_others_;  // running jobs that another process told to end, and since when
  std::vector<model::JobId> to_tell_;    // jobs that get SIGTERM after the journal has recorded it
  std::vector<model::JobId> to_notify_;  // jobs whose users must be told that they have ended
  /// Jobs that get the signal of --signal, after the journal has recorded it.
  std::vector<model::JobId> to_warn_;
  std::optional<Error> fault_;
  bool is_ahead_ = false;  // the state contains changes that the journal refused
  bool is_dirty_ = false;
  std::set<std::uint32_t> known_users_;
  Retention retention_{[this](model::JobId id) { return launcher_.files_to_keep(id); },
                       options_.settings.keep_output_bytes};
  PastUse past_use_;
  WallClock clock_;
  bool has_told_of_salvage_ = false;
  Notices notices_;
  HangReports hangs_;
  model::JobId highest_ = 0;  // the highest number known to be used
};

}  // namespace berth::serve
