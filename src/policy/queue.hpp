// Queue: decides which job starts next. Pure: no I/O and no clock, so the broker, the tests and a
// simulated day use the same code.
//
// Three goals conflict: no job starves, no device idles, and users get their share of GPU time over
// days. Strict order leaves devices idle; pure backfill starves a job that needs all devices. The
// solution is EASY backfill over a fair order:
// 1. Users are ordered by past use per weight (fair_share.hpp); a user's own jobs by priority, then
//   by arrival.
// 2. The first job that does not fit gets a reservation: the time when it will fit, according to
//   the time limits of running jobs. A job without limit is expected to run as long again as it has
//   run.
// 3. A later job starts only if it ends before that time or does not use what is reserved.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "policy/fair_share.hpp"
#include "policy/pool.hpp"

namespace berth::policy {

using JobId = std::uint64_t;

/// The tier of preemptible jobs, which may be ended for other jobs. It always comes last. If it did
/// not, an ended job would immediately get its device back.
inline constexpr int kPreemptibleTier = -2;

/// A job in the queue. `tier` comes before fair share. A job of tier -1 comes after all others
/// until it has waited for `aging`. Only an administrator can set tier +1. `priority` orders only
/// the jobs of one user.
struct WaitingJob {
  JobId id = 0;
  int user = 0;
  Demand demand;
  std::optional<std::chrono::milliseconds> time_limit = {};
  int tier = 0;
  int priority = 0;
  Instant queued{0};
  JobId place = 0;  // position among the user's jobs; 0: the id is the position
};

struct RunningJob {
  JobId id = 0;
  int user = 0;
  Demand demand;
  std::vector<int> devices;
  std::optional<std::chrono::milliseconds> time_limit = {};
  Instant started{0};
  bool preemptible = false;
  bool leaving = false;  // the job was told to end and has not ended yet
};

struct UserRules {
  double weight = 1;
  std::optional<int> most_devices = {};  // the most devices that the user may have at a time
  std::optional<int> most_jobs = {};     // the most jobs that the user may run at a time
};

struct QueueRules {
  std::chrono::milliseconds half_life = std::chrono::hours(24);
  std::chrono::milliseconds aging = std::chrono::hours(24);
};

struct Start {
  JobId job = 0;
  std::vector<int> devices;
};

/// Why a waiting job does not start.
enum class Obstruction : unsigned char {
  kNothing,    // the job can start now
  kBusy,       // the job does not fit next to the running jobs
  kReserved,   // the job fits, but it would delay the job that has a reservation
  kUserLimit,  // the job's user has reached a limit
  kNever       // this machine is too small for it
};
/// The names for JSON, which never change: "nothing", "busy", "reserved", "user_limit", "never".
[[nodiscard]] std::string_view name(Obstruction why);

class Queue {
 public:
  explicit Queue(Pool machine, QueueRules rules = {});

  /// Sets the state of the machine without this broker's leases: use by foreign processes, and
  /// drained and broken devices. New devices are added at the end; devices are never removed.
  void set_machine(const Pool& machine);
  void set_user(int number, const UserRules& rules);
  /// Restores a user's value of FairShare::ahead() from an earlier queue.
  void set_ahead(int user, double seconds, Instant now) { shares_.set_ahead(user, seconds, now); }

  /// Adds a waiting job. WaitingJob::queued may be in the past.
  void add(const WaitingJob& job);
  /// Removes a waiting job. Returns false if the job is not waiting.
  bool remove(JobId id, Instant now);
  void started(JobId id, const std::vector<int>& devices, Instant now);
  /// Adds a job that is already running and was never queued here.
  void adopt(const RunningJob& job);
  void ended(JobId id, Instant now);
  /// Changes the time limit of a running job.
  void set_time_limit(JobId id, std::optional<std::chrono::milliseconds> limit);

  /// Changes the memory and the share of time of a running job. If the new values do not fit next
  /// to the other jobs, returns false and changes nothing.
  [[nodiscard]] bool resize(JobId id, std::uint64_t memory_bytes, int share_permille, Instant now);
  /// `device_bytes`: the memory of the smallest device of a running job. `most_bytes`: the most
  /// memory that the job could have on each of its devices.
  struct Room {
    std::uint64_t device_bytes = 0, most_bytes = 0;
  };
  [[nodiscard]] Room room_for(JobId id) const;
  /// The job to start now; nullopt: none. Call it again after started().
  [[nodiscard]] std::optional<Start> next(Instant now) const;
  /// Call this when a running job was told to end. Its devices will become free soon.
  void leaves(JobId id);
  /// The first waiting job that could start if preemptible jobs ended (`for_job`), and the jobs to
  /// end for it: as few as possible, the newest first. `for_job` is not preemptible itself, and
  /// does not delay the job that has the reservation. nullopt: no job would start.
  struct Preemption {
    JobId for_job = 0;
    std::vector<JobId> jobs;
  };
  [[nodiscard]] std::optional<Preemption> preemption(Instant now) const;
  /// Why a waiting job does not start, and which jobs come before it. These are all earlier jobs of
  /// the same user, and the first job of each kind of every other user.
  struct Outlook {
    Obstruction obstruction = Obstruction::kNothing;
    std::vector<JobId> before;  // jobs that come before this job, in order; at most 100
  };
  [[nodiscard]] Outlook outlook(JobId id, Instant now) const;
  /// When a running job will end: at its time limit, or at the time that is expected without one.
  /// The list is sorted by time.
  struct Release {
    Instant at{0};
    JobId job = 0;
    bool by_limit = false;
  };
  [[nodiscard]] std::vector<Release> releases(Instant now) const;
  /// The time when the demand would fit within its user's limits, if no other job started; nullopt:
  /// never.
  [[nodiscard]] std::optional<Instant> fits_at(int user, const Demand& demand, Instant now) const;
  [[nodiscard]] UserRules rules(int user) const;

  [[nodiscard]] const FairShare& shares() const { return shares_; }
  [[nodiscard]] const Pool& pool() const { return pool_; }
  [[nodiscard]] const WaitingJob* waiting(JobId job) const;
  [[nodiscard]] const RunningJob* running(JobId job) const;
  [[nodiscard]] std::size_t waiting_count() const { return waiting_.size(); }
  [[nodiscard]] std::size_t running_count() const { return running_.size(); }

 private:
  /// What a job needs, and its time limit. A user's jobs of the same kind differ only in their
  /// order, so the queue examines only the first of them.
  using Kind = std::pair<Demand, std::optional<std::chrono::milliseconds>>;
  /// The position of a job among the user's jobs of one kind; the smaller one comes first.
  struct Place {
    int tier = 0, priority = 0;  // both negated, so that the larger one comes first
    JobId place = 0, job = 0;
    auto operator<=>(const Place&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  struct Use {
    int devices = 0, jobs = 0;  // devices in use, and number of running jobs
  };
  struct User {
    UserRules rules;
    Use use;
    std::map<Kind, std::set<Place>> lines;
    std::set<std::pair<Place, const Kind*>> heads;  // the first job of each line in `lines`
  };
  /// The time when the first blocked job will fit, and the resources that other jobs may use until
  /// then.
  struct Reservation {
    Instant from{0};
    Pool beside;
  };
  class Walk;
  struct Look {
    Obstruction obstruction = Obstruction::kNothing;
    std::vector<int> devices;
  };
  /// The machine now, or the machine as it would be if the jobs in `ended` had ended.
  struct Scene {
    Pool pool;
    std::set<JobId> ended;
  };
  [[nodiscard]] Look look(const WaitingJob& job, std::optional<Reservation>& first, Instant now,
                          const Scene* scene = nullptr) const;
  [[nodiscard]] std::optional<Reservation> reserve(const Demand& least, Instant now,
                                                   const Scene* scene) const;
  [[nodiscard]] bool starts(const WaitingJob& job, const WaitingJob* blocked, const Scene& scene,
                            Instant now) const;
  [[nodiscard]] Preemption fewest(const WaitingJob& wanted, const WaitingJob* blocked, Scene scene,
                                  const std::vector<const RunningJob*>& newest, Instant now) const;
  [[nodiscard]] static Place place_of(const WaitingJob& job);
  [[nodiscard]] int tier_now(const WaitingJob& job, Instant now) const;
  void begin(const RunningJob& job);

  QueueRules rules_;
  FairShare shares_;
  Pool machine_, pool_;  // `machine_` is without, `pool_` with this broker's leases
  std::map<int, User> users_;
  std::map<JobId, WaitingJob> waiting_;
  std::map<JobId, RunningJob> running_;
};

}  // namespace berth::policy
