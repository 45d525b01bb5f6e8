// Broker: the one owner of what changes: who waits, who has what. No I/O and no clock in here:
// time, the machine and the deaths of processes are told to it, and what it did is read from it. So
// a test can live through a year of it in a second, and a kill can come between any two calls:
// whoever writes changed() to the journal before answering loses nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "broker/arrays.hpp"
#include "broker/crowd.hpp"
#include "model/array_range.hpp"
#include "model/job.hpp"
#include "model/ledger.hpp"
#include "model/snapshot.hpp"
#include "policy/queue.hpp"

namespace berth::broker {

using model::Job;
using model::JobId;
using model::JobState;

/// Of the caller's clocks: steady for reckoning, the wall's for people.
struct Now {
  policy::Instant steady{0};
  std::int64_t unix_milliseconds = 0;
};

/// Who asks. From the kernel, never from what a client says.
struct Caller {
  std::uint32_t uid = 0;
  bool admin = false;
};

/// E0901
[[nodiscard]] Error no_such_job(JobId id);
/// E0902
[[nodiscard]] Error not_yours(const Job& job);

class Broker {
 public:
  explicit Broker(policy::QueueRules rules = {});

  /// What the machine looks like now; `processes` says which of its processes belong to which job.
  void see(model::Snapshot snapshot, std::vector<model::JobProcess> processes);
  void set_user(std::uint32_t uid, const policy::UserRules& rules);
  /// Device-seconds for their weight that a user had more than who had least.
  [[nodiscard]] double ahead(std::uint32_t uid, Now now) const;
  void set_ahead(std::uint32_t uid, double seconds, Now now);
  /// Units that get no new jobs. Fails with kNotFound (E0413).
  [[nodiscard]] Status drain(const std::string& unit, bool drained);
  /// As they were written down; they may not be there now.
  void restore_drained(std::vector<std::string> units);

  /// Units on which jobs of other brokers of this machine are; replaces those of before.
  void set_elsewhere(std::vector<std::string> units);

  /// As it stood in the journal; after the first see() and before all else. First those that run,
  /// then the others, by ascending id.
  void restore(const Job& job, Now now);
  /// Takes what was asked for and by whom; gives id, state and time. Fails as policy::demand_of,
  /// and with kNotFound (E0901: `after` names a job that is not there) and kRefused (E0937: too
  /// many of that user's; E0938: more than that user may have).
  [[nodiscard]] Result<JobId> submit(Job job, Now now);
  /// As many jobs like this one, the ids of which follow that of the array, which it returns.
  [[nodiscard]] Result<JobId> submit_array(const Job& job, const model::ArrayRange& range, Now now);
  /// Jobs that waited for a GPU as long as they would, and fit on the CPU, go there.
  void turn_to_cpu(Now now);
  /// Starts what fits, in the order of the queue; ids of what started.
  [[nodiscard]] std::vector<JobId> start_what_fits(Now now);
  /// The processes whose lives are the job's; replaces those of before.
  void set_owners(JobId id, std::vector<model::ProcessId> owners);
  /// What keeps it from devices that are not its own, and the control group that does; "" none.
  void set_access(JobId id, model::Access access, std::string group);
  void set_refusals(JobId id, std::uint64_t refusals);
  /// A running job was told to end, which a broker that follows this one must know.
  void tell_to_end(JobId id, model::ToldToEnd how);
  /// A running job is over. Nothing happens to one that is not running.
  void end(JobId id, JobState state, std::optional<model::Outcome> outcome, std::string why,
           Now now);
  /// Of a job that waits: it is over. Fails with kNotFound (E0901), kPermissionDenied (E0902:
  /// another user's), kInvalidArgument (E0903: it runs, or has ended).
  [[nodiscard]] Status cancel(JobId id, Caller caller, Now now);
  /// Holds a waiting job back, or lets it stand in line again (behind those who waited). Fails as
  /// cancel().
  [[nodiscard]] Status hold(JobId id, bool held, Caller caller, Now now);
  /// Somebody set the wall's clock: those of its times that lie between these become `by` later.
  void move_times(std::int64_t from, std::int64_t to, std::int64_t by);
  /// Forgets jobs that ended before; their ids.
  std::vector<JobId> forget_ended_before(std::int64_t unix_milliseconds,
                                         const std::map<std::uint32_t, std::int64_t>& of_user = {});

  [[nodiscard]] const Job* job(JobId id) const;
  /// What the next job that is submitted will be called.
  [[nodiscard]] JobId next_id() const { return next_; }
  [[nodiscard]] const std::map<JobId, Job>& jobs() const { return jobs_; }
  [[nodiscard]] const model::Ledger& ledger() const { return ledger_; }
  [[nodiscard]] const model::Snapshot& snapshot() const { return snapshot_; }
  [[nodiscard]] const policy::Queue& queue() const { return queue_; }
  [[nodiscard]] const std::vector<std::string>& units() const { return units_; }
  [[nodiscard]] const std::vector<std::string>& drained() const { return drained_; }
  [[nodiscard]] const std::vector<std::string>& elsewhere() const { return elsewhere_; }
  /// Jobs that changed since this was asked last: to be written down before anyone is told.
  [[nodiscard]] std::set<JobId> changed();
  /// The jobs of an array; none where there is none of that id.
  [[nodiscard]] std::set<JobId> jobs_of_array(JobId id) const { return arrays_.jobs(id); }
  /// Whether it keeps out of line only because enough of its array are in it.
  [[nodiscard]] bool waits_for_its_array(const Job& job) const { return arrays_.is_aside(job); }

 private:
  struct Pending {
    policy::Demand demand;
    policy::Instant queued{0};
  };
  [[nodiscard]] Result<Job*> changeable(JobId id, Caller caller);
  [[nodiscard]] bool waits_for_another(const Job& job) const;
  [[nodiscard]] bool is_over(JobId job_or_array) const;
  /// As people name it.
  [[nodiscard]] std::string number(model::JobId job_or_array) const;
  [[nodiscard]] Status check_after(const Job& job) const;
  [[nodiscard]] Result<policy::Demand> demand_of(Job& job) const;
  [[nodiscard]] static int user_of(const Job& job);
  [[nodiscard]] static bool takes_a_core(const Job& job, int devices);
  [[nodiscard]] Result<policy::Demand> admit(Job& job, std::size_t count) const;
  JobId enter(Job job, const policy::Demand& demand, Now now);
  void stand_in_line(const Job& job);
  void leave_line(const Job& job, Now now);
  void ended(const Job& job, Now now);
  void follow(JobId over, bool well, Now now);
  void take_lease(const Job& job);
  void give_lease_back(const Job& job);
  [[nodiscard]] bool start(const policy::Start& start, Now now);
  [[nodiscard]] std::vector<int> positions_of(const Job& job) const;
  void reckon_machine();
  void reconsider();
  void close_drained();

  model::Snapshot snapshot_;
  model::Ledger ledger_;
  std::vector<std::string> units_, drained_, elsewhere_;
  policy::Queue queue_;
  std::map<JobId, Job> jobs_;
  Crowd crowd_;
  std::map<JobId, Pending> pending_;            // those that wait, in line or not
  std::map<JobId, std::set<JobId>> followers_;  // by the job that they wait for
  std::set<JobId> changed_, passed_over_;
  std::set<JobId> may_turn_;  // to the CPU, when they have waited long enough
  Arrays arrays_;
  std::vector<std::pair<JobId, bool>> over_;  // whose followers are yet to be told, and how it went
  bool following_ = false;
  JobId next_ = 1;
};

}  // namespace berth::broker
