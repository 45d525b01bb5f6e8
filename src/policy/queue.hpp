// Queue: who starts next. Pure: no I/O and no clock, so the broker, the tests and a simulated day
// ask the same code.
//
// The problem is three wishes that pull apart: nobody is starved, nobody's device stands idle, and
// everybody gets their share of GPU time over days. Strict order starves devices; pure backfill
// starves the job that needs eight of them. The choice is EASY backfill over a fair order:
// 1. Users stand in the order of what they had for their weight (fair_share.hpp); a user's own jobs
//    by priority, then as they came.
// 2. The first job that does not fit gets a reservation: the moment at which, by the time limits of
//    what runs, it will fit. What has no limit is expected to run as long again as it has run.
// 3. A later job starts only where it would be gone by then, or leaves what was reserved alone.
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

/// `tier` stands above what users had: -1 gives way to everybody's until it has waited `aging`; +1
/// only an administrator gives. `priority` orders a user's own jobs alone.
struct WaitingJob {
  JobId id = 0;
  int user = 0;
  Demand demand;
  std::optional<std::chrono::milliseconds> time_limit = {};
  int tier = 0;
  int priority = 0;
  Instant queued{0};
};

struct RunningJob {
  JobId id = 0;
  int user = 0;
  Demand demand;
  std::vector<int> devices;
  std::optional<std::chrono::milliseconds> time_limit = {};
  Instant started{0};
};

struct UserRules {
  double weight = 1;
  std::optional<int> most_devices = {};  // at a time
  std::optional<int> most_jobs = {};     // running at a time
};

struct QueueRules {
  std::chrono::milliseconds half_life = std::chrono::hours(24);
  std::chrono::milliseconds aging = std::chrono::hours(24);
};

struct Start {
  JobId job = 0;
  std::vector<int> devices;
};

/// Why a job that waits does not start.
enum class Obstruction : unsigned char {
  kNothing,    // it starts now
  kBusy,       // it does not fit beside what runs
  kReserved,   // it would fit, but would delay a job that was to come first
  kUserLimit,  // its user has as many devices or jobs as allowed
  kNever       // this machine has not so much
};
/// "nothing", "busy", "reserved", "user_limit", "never": stable, for JSON.
[[nodiscard]] std::string_view name(Obstruction why);

class Queue {
 public:
  explicit Queue(Pool machine, QueueRules rules = {});

  /// The machine without our leases: what others use, what is drained or broken. Devices that are
  /// new stand last; none is ever taken out.
  void set_machine(const Pool& machine);
  void set_user(int number, const UserRules& rules);
  /// As FairShare::set_ahead.
  void set_ahead(int user, double seconds, Instant now) { shares_.set_ahead(user, seconds, now); }

  /// At WaitingJob::queued.
  void add(const WaitingJob& job);
  /// From the line; false where it is not in it.
  bool remove(JobId id, Instant now);
  void started(JobId id, const std::vector<int>& devices, Instant now);
  /// A lease that never stood in the line.
  void adopt(const RunningJob& job);
  void ended(JobId id, Instant now);

  /// Who starts now; nullopt: nobody. To be asked again after started().
  [[nodiscard]] std::optional<Start> next(Instant now) const;
  /// Of a job that waits: why it does not start, and who stands before it: of every other user the
  /// first of each kind of job, of its own user all.
  struct Outlook {
    Obstruction obstruction = Obstruction::kNothing;
    std::vector<JobId> before;  // first first; at most 100
  };
  [[nodiscard]] Outlook outlook(JobId id, Instant now) const;
  /// When what runs now will have ended, by limits or by expectation; in the order of time.
  struct Release {
    Instant at{0};
    JobId job = 0;
    bool by_limit = false;
  };
  [[nodiscard]] std::vector<Release> releases(Instant now) const;
  /// When it would fit, and this user may have it, if nobody else was given anything; nullopt: not
  /// even then.
  [[nodiscard]] std::optional<Instant> fits_at(int user, const Demand& demand, Instant now) const;
  [[nodiscard]] UserRules rules(int user) const;

  [[nodiscard]] const FairShare& shares() const { return shares_; }
  [[nodiscard]] const Pool& pool() const { return pool_; }
  [[nodiscard]] const WaitingJob* waiting(JobId job) const;
  [[nodiscard]] const RunningJob* running(JobId job) const;
  [[nodiscard]] std::size_t waiting_count() const { return waiting_.size(); }
  [[nodiscard]] std::size_t running_count() const { return running_.size(); }

 private:
  /// A user's jobs that are alike for the queue: only their first needs a look.
  using Kind = std::pair<Demand, std::optional<std::chrono::milliseconds>>;
  /// Smaller is served first.
  struct Place {
    int tier = 0, priority = 0;  // both negated
    JobId job = 0;
    auto operator<=>(const Place&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  struct Use {
    int devices = 0, jobs = 0;  // running
  };
  struct User {
    UserRules rules;
    Use use;
    std::map<Kind, std::set<Place>> lines;
    std::set<std::pair<Place, const Kind*>> heads;  // the first of each line
  };
  /// The moment from which the first job that did not fit will, and what it leaves for others.
  struct Reservation {
    Instant from{0};
    Pool beside;
  };
  class Walk;
  struct Look {
    Obstruction obstruction = Obstruction::kNothing;
    std::vector<int> devices;
  };
  [[nodiscard]] Look look(const WaitingJob& job, std::optional<Reservation>& first,
                          Instant now) const;
  [[nodiscard]] std::optional<Reservation> reserve(const Demand& demand, Instant now) const;
  [[nodiscard]] int tier_now(const WaitingJob& job, Instant now) const;
  void begin(const RunningJob& job);

  QueueRules rules_;
  FairShare shares_;
  Pool machine_, pool_;  // without our leases, and with them
  std::map<int, User> users_;
  std::map<JobId, WaitingJob> waiting_;
  std::map<JobId, RunningJob> running_;
};

}  // namespace berth::policy
