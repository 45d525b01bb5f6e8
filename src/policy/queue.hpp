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

/// The tier of jobs that may be ended for others. It always comes last. Otherwise such a job would
/// start again on the device that it had to leave.
inline constexpr int kPreemptibleTier = -2;

/// `tier` comes before fair share. A job of tier -1 comes after all other jobs until it has waited
/// for `aging`. Only an administrator can set tier +1. `priority` orders only a user's own jobs.
struct WaitingJob {
  JobId id = 0;
  int user = 0;
  Demand demand;
  std::optional<std::chrono::milliseconds> time_limit = {};
  int tier = 0;
  int priority = 0;
  Instant queued{0};
  JobId place = 0;  // used instead of the id to order a user's jobs; 0: use the id
};

struct RunningJob {
  JobId id = 0;
  int user = 0;
  Demand demand;
  std::vector<int> devices;
  std::optional<std::chrono::milliseconds> time_limit = {};
  Instant started{0};
  bool preemptible = false;
  bool leaving = false;  // the job was told to end
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
  kUserLimit,  // its user has reached a limit
  kNever       // this machine is too small for it
};
/// Stable names for JSON: "nothing", "busy", "reserved", "user_limit", "never".
[[nodiscard]] std::string_view name(Obstruction why);

class Queue {
 public:
  explicit Queue(Pool machine, QueueRules rules = {});

  /// Sets the state of the machine without this broker's leases: foreign use, drained and broken
  /// devices. New devices are added at the end; devices are never removed.
  void set_machine(const Pool& machine);
  void set_user(int number, const UserRules& rules);
  /// See FairShare::set_ahead.
  void set_ahead(int user, double seconds, Instant now) { shares_.set_ahead(user, seconds, now); }

  /// Adds a waiting job. It may have waited already, since WaitingJob::queued.
  void add(const WaitingJob& job);
  /// Removes a waiting job; false if it is not waiting.
  bool remove(JobId id, Instant now);
  void started(JobId id, const std::vector<int>& devices, Instant now);
  /// Adds a job that is already running and was never queued here.
  void adopt(const RunningJob& job);
  void ended(JobId id, Instant now);
  /// Changes the limit of a running job.
  void set_time_limit(JobId id, std::optional<std::chrono::milliseconds> limit);

  /// Changes the memory and share of a running job. Returns false and changes nothing if they do
  /// not fit next to the other jobs.
  [[nodiscard]] bool resize(JobId id, std::uint64_t memory_bytes, int share_permille, Instant now);
  /// The memory of the smallest device of this running job, and the most memory that the job could
  /// have on each of its devices.
  struct Room {
    std::uint64_t device_bytes = 0, most_bytes = 0;
  };
  [[nodiscard]] Room room_for(JobId id) const;
  /// The job to start now; nullopt: none. Call it again after started().
  [[nodiscard]] std::optional<Start> next(Instant now) const;
  /// Call it when a running job was told to end, so its devices will become free soon.
  void leaves(JobId id);
  /// The first waiting job that is not preemptible and could start if preemptible jobs ended, and
  /// these jobs: as few as possible, those that started last. The job that has the reservation is
  /// not delayed. nullopt: nothing to do, or it would not help.
  struct Preemption {
    JobId for_job = 0;
    std::vector<JobId> jobs;
  };
  [[nodiscard]] std::optional<Preemption> preemption(Instant now) const;
  /// Why a waiting job does not start, and which jobs come before it: all earlier jobs of the same
  /// user, and the first job of each kind of every other user.
  struct Outlook {
    Obstruction obstruction = Obstruction::kNothing;
    std::vector<JobId> before;  // jobs that come before this job, in order; at most 100
  };
  [[nodiscard]] Outlook outlook(JobId id, Instant now) const;
  /// When each running job will end, by its limit or as expected; sorted by time.
  struct Release {
    Instant at{0};
    JobId job = 0;
    bool by_limit = false;
  };
  [[nodiscard]] std::vector<Release> releases(Instant now) const;
  /// When the demand would fit within the limits of its user, if no other job started; nullopt:
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
  /// Jobs of one user that differ only in their order belong to one kind. The queue only looks at
  /// the first of them.
  using Kind = std::pair<Demand, std::optional<std::chrono::milliseconds>>;
  /// The position in a line; the smaller one comes first.
  struct Place {
    int tier = 0, priority = 0;  // both negated, so that the larger one comes first
    JobId place = 0, job = 0;
    auto operator<=>(const Place&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  struct Use {
    int devices = 0, jobs = 0;  // devices and number of running jobs
  };
  struct User {
    UserRules rules;
    Use use;
    std::map<Kind, std::set<Place>> lines;
    std::set<std::pair<Place, const Kind*>> heads;  // the first job of each line
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
  /// The machine as it is, or as it would be if some running jobs had ended.
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
  Pool machine_, pool_;  // the machine without and with this broker's leases
  std::map<int, User> users_;
  std::map<JobId, WaitingJob> waiting_;
  std::map<JobId, RunningJob> running_;
};

}  // namespace berth::policy
