// Broker: owns the queue and the leases. It does no I/O and reads no clock. The caller passes in
// the time, the state of the machine and the ends of processes, and reads the results. So a test
// can simulate a year in a second. If the caller writes changed() to the journal before it answers
// a request, no confirmed change is lost when the process is killed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "broker/arrays.hpp"
#include "broker/user_load.hpp"
#include "model/array_range.hpp"
#include "model/job.hpp"
#include "model/ledger.hpp"
#include "model/snapshot.hpp"
#include "policy/queue.hpp"

namespace berth::broker {

using model::Job;
using model::JobId;
using model::JobState;

/// The caller's clocks: the monotonic clock for durations, the wall clock for times that people
/// read.
struct Now {
  policy::Instant steady{0};
  std::int64_t unix_milliseconds = 0;
};

/// The sender of a request, as the kernel reports it, and not as the client claims.
struct Caller {
  std::uint32_t uid = 0;
  bool admin = false;
  std::string name = {};  // an empty name stands for the broker itself
};

/// Changes to a job. A member without a value is not changed. Most members can only be changed
/// while the job waits.
struct Changes {
  std::optional<int> priority, gpus;
  std::optional<std::uint64_t> memory_bytes;  // for a job on a shared device, waiting or running
  std::optional<int> share_permille;          // for a waiting or running job
  std::optional<std::chrono::milliseconds> time_limit;  // 0: no limit
  std::optional<std::vector<JobId>> after, after_any, after_not_ok;
  bool first = false;         // true: the job goes before all other jobs of its user
  std::optional<JobId> swap;  // the job that exchanges places in the queue with the changed job
};

/// Reads {"priority":5,"gpus":2,"time_limit_milliseconds":N,"after":[7],"first":true,"swap":9}. If
/// N is `null`, the time limit is removed. Fails with kInvalidArgument (E0904, E0104).
[[nodiscard]] Result<Changes> changes_of(std::string_view body);

/// A user id, and which of the user's jobs are meant: the queued jobs (true) or the leases (false).
using UserJobs = std::pair<std::uint32_t, bool>;

/// E0901: there is no such job.
[[nodiscard]] Error no_such_job(JobId id);
/// E0902: the job belongs to another user.
[[nodiscard]] Error not_yours(const Job& job);

class Broker {
 public:
  explicit Broker(policy::QueueRules rules = {});

  /// Sets the current state of the machine. `processes` says which process belongs to which job.
  void see(model::Snapshot snapshot, std::vector<model::JobProcess> processes);
  void set_user(std::uint32_t uid, const policy::UserRules& rules);
  /// How much more this user has used than the user with the least use, in device-seconds divided
  /// by weight.
  [[nodiscard]] double ahead(std::uint32_t uid, Now now) const;
  void set_ahead(std::uint32_t uid, double seconds, Now now);
  /// If `drained`, new jobs no longer get this unit (a GPU or MIG partition). If not, they may get
  /// it again. Fails with kNotFound (E0413: there is no such unit) and kUnavailable (E1014: a lent
  /// unit cannot resume).
  [[nodiscard]] Status drain(const std::string& unit, bool drained);
  /// Lends the unit (a GPU or MIG partition) to the scheduler `to` (a model::Scheduler::key), or
  /// ends the loan. A drained unit stays drained. Fails with kNotFound (E0413: there is no such
  /// unit) and kUnavailable (E1014: another scheduler has it).
  [[nodiscard]] Status lend(const std::string& unit, const std::string& to, bool is_lent);
  /// Restores the drained and lent units (GPUs or MIG partitions) from the journal; some may no
  /// longer exist.
  void restore_drained(std::vector<std::string> units, std::map<std::string, std::string> lent);

  /// `rooms`: where MIG partitions can be made for jobs. `made`: the uuids of the partitions that
  /// were already made for jobs.
  void set_mig(std::vector<model::MigRoom> rooms, std::vector<std::string> made);
  /// The uuid of the GPU on which this newly started job needs a partition; empty if it needs none.
  /// After making the partition, call set_partition(). If that is impossible, call put_back().
  [[nodiscard]] std::string needs_partition(JobId id) const;
  /// Gives the job this partition. Until this call, the job only has a lease on memory of the GPU.
  void set_partition(JobId id, const model::Partition& partition);
  /// Call it if the partition cannot be made. The job then waits again until the machine has
  /// changed.
  void put_back(JobId id, Now now);

  /// Call it before end() if these processes of the job could not be killed. The job's units are
  /// set aside, so that no other job gets them.
  void set_aside(JobId id, const std::vector<model::ProcessId>& processes);
  /// Makes a unit available to jobs again if its stuck processes are gone. Returns true if at least
  /// one unit became available.
  bool end_aside(const std::function<bool(const model::ProcessId&)>& lives);
  void restore_aside(std::vector<model::AsideUnit> aside);
  [[nodiscard]] const std::vector<model::AsideUnit>& aside() const { return aside_; }

  /// Replaces the list of units (GPUs or MIG partitions) that other brokers on this machine use.
  void set_elsewhere(std::vector<std::string> units);

  /// Restores a job from the journal. Call it after the first see() and before all other functions.
  /// Restore the running jobs first, then the remaining jobs, each group by ascending id.
  void restore(const Job& job, Now now);
  /// Marks all numbers up to this one as used, even if no job with them is known.
  void skip_numbers(JobId highest) { next_ = std::max(next_, highest + 1); }
  /// Sets id, state and time of the job and queues it. Fails with the errors of
  /// policy::demand_of(), kNotFound (E0901: a job in `after` does not exist) and kRefused (E0937:
  /// the user has too many jobs; E0938: the job needs more than the user may have).
  [[nodiscard]] Result<JobId> submit(Job job, Now now);
  /// Submits one copy of the job per index. Returns the array's id; its jobs have the ids after it.
  [[nodiscard]] Result<JobId> submit_array(const Job& job, const model::ArrayRange& range, Now now);
  /// Moves waiting jobs to the CPU if they have waited for a GPU for Job::or_cpu_after, and if they
  /// fit on the CPU.
  void turn_to_cpu(Now now);
  /// Starts the jobs that fit, in the order of the queue. Returns the ids of the started jobs.
  [[nodiscard]] std::vector<JobId> start_what_fits(Now now);
  /// Replaces the processes that keep the job's lease valid.
  void set_owners(JobId id, std::vector<model::ProcessId> owners);
  /// Records how the job is kept from using other devices, and its control group ("": none).
  void set_access(JobId id, model::Access access, std::string group);
  void set_refusals(JobId id, std::uint64_t refusals);
  /// Records that a running job is being ended, so that a restarted broker knows it.
  void tell_to_end(JobId id, model::ToldToEnd how);
  /// Running preemptible jobs that must end so that another job can start, each with the reason.
  [[nodiscard]] std::vector<std::pair<JobId, std::string>> to_preempt(Now now) const;
  /// Records that this job, which the broker started, goes back to the queue if it now ends with a
  /// failure. Fails with kInvalidArgument (E0993: it does not run, or was not queued), and with
  /// kNoDevice (E0994: no device of the machine would be left for it).
  [[nodiscard]] Status set_next_try(JobId id, model::QueuedTry next);
  /// Queues the jobs whose pause before the next try was over at `looked`. At that time the newest
  /// snapshot of the machine was started. An older snapshot may not show the memory that made the
  /// last try fail.
  void end_pauses(policy::Instant looked);
  /// When the pause of this job before its next try is over; nullopt: it does not pause.
  [[nodiscard]] std::optional<policy::Instant> pauses_until(JobId id) const;
  /// The next time when end_pauses() has something to do; nullopt: no job pauses.
  [[nodiscard]] std::optional<policy::Instant> next_pause_end() const;
  /// Records that a running job has ended. If `state` is kWaiting, the job goes back to the queue.
  /// If the job is not running, this function does nothing.
  void end(JobId id, JobState state, std::optional<model::Outcome> outcome, std::string why,
           Now now);
  /// Cancels a waiting job. Fails with kNotFound (E0901), kPermissionDenied (E0902: it is another
  /// user's), kInvalidArgument (E0903: it is running or has ended).
  [[nodiscard]] Status cancel(JobId id, Caller caller, Now now);
  /// Removes a waiting request for a lease, as if it had never been made. Returns nullopt and
  /// removes nothing if the lease was already granted, if the request is a queued job, or if other
  /// jobs depend on it.
  [[nodiscard]] std::optional<Job> withdraw(JobId id, Now now);
  /// If `held`, holds a waiting job. If not, releases a held job, which then goes to the end of the
  /// queue. Fails with the errors of cancel().
  [[nodiscard]] Status hold(JobId id, bool held, Caller caller, Now now);
  /// Call it if the wall clock was changed: adds `by` to all recorded times between `from` and
  /// `to`.
  void move_times(std::int64_t from, std::int64_t to, std::int64_t by);
  /// Forgets the jobs that ended before this time. If `of_user` has a later time for the job's
  /// user, that time counts. Returns the ids of the forgotten jobs.
  std::vector<JobId> forget_ended_before(std::int64_t unix_milliseconds,
                                         const std::map<UserJobs, std::int64_t>& of_user = {});

  [[nodiscard]] const Job* job(JobId id) const;
  /// The job or array that this user submitted with this key.
  [[nodiscard]] std::optional<JobId> submitted(std::uint32_t uid, const std::string& key) const;
  /// Changes a waiting job. For a running job, only the time limit, the memory and the share can
  /// change. Fails with the errors of cancel() and submit(), kInvalidArgument (E0948: this change
  /// is not possible), and kRefused (E0521: other jobs have that memory or share).
  [[nodiscard]] Status edit(JobId id, const Changes& changes, Caller caller, Now now);
  /// Records that the signal of --signal was sent to the job.
  void set_warned(JobId id);
  void set_usage(JobId id, const model::JobUsage& usage);
  /// The id of the next submitted job.
  [[nodiscard]] JobId next_id() const { return next_; }
  [[nodiscard]] const std::map<JobId, Job>& jobs() const { return jobs_; }
  /// All jobs, sorted by number. Reading this vector is much faster than reading the map, whose
  /// nodes are loaded one after another. Valid until the next change.
  [[nodiscard]] const std::vector<const Job*>& all_jobs() const;
  [[nodiscard]] const model::Ledger& ledger() const { return ledger_; }
  [[nodiscard]] const model::Snapshot& snapshot() const { return snapshot_; }
  [[nodiscard]] const policy::Queue& queue() const { return queue_; }
  [[nodiscard]] const std::vector<std::string>& units() const { return units_; }
  [[nodiscard]] const std::vector<std::string>& drained() const { return drained_; }
  /// The lent units, each with the scheduler that has it.
  [[nodiscard]] const std::map<std::string, std::string>& lent() const { return lent_; }
  [[nodiscard]] const std::vector<std::string>& elsewhere() const { return elsewhere_; }
  [[nodiscard]] model::ClosedUnits closed() const;
  /// Jobs that changed since the last call. Write them to the journal before answering a request.
  [[nodiscard]] std::set<JobId> changed();
  /// The jobs of an array; empty if there is no such array.
  [[nodiscard]] std::set<JobId> jobs_of_array(JobId id) const { return arrays_.jobs(id); }
  /// Whether the job waits only because its array already has as many jobs in the queue as its
  /// limit allows.
  [[nodiscard]] bool waits_for_its_array(const Job& job) const { return arrays_.is_aside(job); }

 private:
  struct Pending {
    policy::Demand demand;
    policy::Instant queued{0};
    bool pauses = false;  // the job waits for the end of Job::pause, which began at `queued`
  };
  [[nodiscard]] Result<Job*> changeable(JobId id, Caller caller);
  [[nodiscard]] bool waits_for_another(const Job& job) const;
  /// Why this job can never start, because of how the jobs that it depends on have ended. Empty if
  /// it can start or if those jobs have not ended.
  [[nodiscard]] std::string never_after(const Job& job) const;
  [[nodiscard]] Status resize(Job& job, const Changes& changes, Now now);
  [[nodiscard]] Status change_line(Job& job, const Changes& changes, Caller caller, Now now);
  void follow_all(const Job& job);
  [[nodiscard]] bool is_known(JobId job_or_array) const;
  [[nodiscard]] bool went_well(JobId job_or_array) const;
  [[nodiscard]] bool is_over(JobId job_or_array) const;
  /// The number that users see: job_number() of a job, or the id of an array.
  [[nodiscard]] std::string number(model::JobId job_or_array) const;
  [[nodiscard]] Status check_after(const Job& job) const;
  [[nodiscard]] Result<policy::Demand> demand_of(Job& job) const;
  [[nodiscard]] static model::Request wish_of(const Job& job);
  [[nodiscard]] static int user_of(const Job& job);
  [[nodiscard]] static bool takes_a_core(const Job& job, int devices);
  [[nodiscard]] Result<policy::Demand> admit(Job& job, std::size_t count) const;
  JobId enter(Job job, const policy::Demand& demand, Now now);
  void stand_in_line(const Job& job);
  void leave_line(const Job& job, Now now);
  void put_back(Job& job, const policy::Demand& demand, std::string why, Now now);
  void ended(const Job& job, Now now);
  void follow(JobId over, Now now);
  void take_lease(const Job& job);
  void give_lease_back(const Job& job);
  [[nodiscard]] bool start(const policy::Start& start, Now now);
  [[nodiscard]] std::vector<int> positions_of(const Job& job) const;
  void reckon_machine();
  void reconsider();
  void close_drained();
  void close_aside();
  [[nodiscard]] Status known(const std::string& unit) const;
  [[nodiscard]] std::vector<std::string> drained_or_lent() const;

  model::Snapshot snapshot_;
  model::Ledger ledger_;
  std::vector<std::string> units_, drained_, elsewhere_;
  std::map<std::string, std::string> lent_;
  std::vector<model::AsideUnit> aside_;
  policy::Queue queue_;
  std::map<JobId, Job> jobs_;
  /// All jobs in jobs_, sorted by number. Removing a job empties this list; all_jobs() then fills
  /// it again.
  mutable std::vector<const Job*> all_jobs_;
  UserLoad user_load_;
  std::map<JobId, Pending> pending_;  // waiting jobs, in the queue or not
  /// The key is a job; the value is the set of jobs that depend on it.
  std::map<JobId, std::set<JobId>> followers_;
  std::set<JobId> changed_, passed_over_;
  std::set<JobId> paused_;    // waiting jobs that enter the queue after their pause
  std::set<JobId> may_turn_;  // waiting jobs that move to the CPU after Job::or_cpu_after
  Arrays arrays_;
  std::vector<JobId> over_;  // ended jobs whose followers must still be processed
  bool following_ = false;
  void remember_key(const Job& job);
  /// Maps the user and the key of each submission to the submitted job or array.
  std::map<std::pair<std::uint32_t, std::string>, JobId> keys_;
  JobId next_ = 1;
};

}  // namespace berth::broker
