// Execution: carries out what the broker decides, and tells it what became of it. Every change is
// in the journal before anyone is told of it and before anything is started, or ended because
// somebody wished so. Where the journal refuses it (the disk is full), there is a fault(): the
// state is again what was written, nothing new is taken or started, and what runs is looked after
// until the journal takes what is written to it.
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
#include "serve/launcher.hpp"
#include "serve/observer.hpp"
#include "serve/server.hpp"
#include "serve/wall_clock.hpp"
#include "serve/watches.hpp"
#include "system/device_locks.hpp"

namespace berth::serve {

/// Steady for reckoning, the wall's for people.
[[nodiscard]] broker::Now now();

class Execution {
 public:
  /// `changed`: called with the jobs that changed, after they were written down.
  Execution(boost::asio::io_context& loop, const DaemonOptions& options, broker::Journal journal,
            Launcher launcher, std::optional<Fence> fence,
            std::function<void(const std::set<model::JobId>&)> changed);

  [[nodiscard]] const broker::Broker& broker() const { return broker_; }
  [[nodiscard]] const std::optional<Error>& fault() const { return fault_; }
  /// Processes whose descendants are jobs'.
  [[nodiscard]] std::vector<JobRoot> roots() const { return watches_.roots(); }
  /// Where its output goes; "" of what is no queued job.
  [[nodiscard]] std::string log_of(const model::Job& job) const {
    return job.queued ? launcher_.log(job.id) : "";
  }
  /// Of that, at most so many bytes from one on.
  [[nodiscard]] std::string output_of(const model::Job& job, std::int64_t from,
                                      std::size_t most) const {
    return job.queued ? launcher_.output(job.id, from, most) : "";
  }

  /// The nodes of the machine's GPUs, where jobs are fenced in.
  [[nodiscard]] const model::GpuNodes& nodes() const;

  /// The time of the queue, and of people as jobs are told it.
  [[nodiscard]] broker::Now now() const { return {serve::now().steady, clock_.now()}; }

  void see(Look look);
  /// The broker of all users is there: this one starts nothing.
  [[nodiscard]] bool gives_way() const;
  /// What the journal holds; once, after the first see().
  void restore();
  /// Starts what fits, writes down what changed, and tells of it. False where there is a fault.
  bool settle();
  /// After a fault: what was not written down did not happen.
  void go_back();
  /// Whether the journal takes something again; then there is no fault any more.
  bool retry();

  // What callers may ask for; each needs a settle() after it. Who they are the kernel has said.

  /// Its job's user and owners are set already. Fails as Broker::submit, Launcher::prepare.
  [[nodiscard]] Result<model::JobId> submit(const broker::Submission& asked, const Peer& peer);
  /// Returns the array's id. Fails as submit().
  [[nodiscard]] Result<model::JobId> submit_array(const broker::Submission& asked,
                                                  const model::ArrayRange& range, const Peer& peer);
  /// Fails as Broker::cancel. One that runs is told to end.
  [[nodiscard]] Status cancel(model::JobId id, broker::Caller caller);
  /// Fails as Broker::hold.
  [[nodiscard]] Status hold(model::JobId id, bool held, broker::Caller caller);
  void set_owners(model::JobId id, const std::vector<model::ProcessId>& owners);
  /// Brings processes of this user's into the job's control group; the lease lasts as long as they
  /// do as well. Fails as Fence::admit, and with kUnsupported (E0941) where the job has no group.
  [[nodiscard]] Status enter(model::JobId id, const std::vector<model::ProcessId>& processes,
                             std::uint32_t user);
  /// A unit that gets no new jobs, or gets them again; written down at once. Fails as
  /// Broker::drain, Journal::set_value.
  [[nodiscard]] Status drain(const std::string& unit, bool drained);
  /// A lease is given back.
  void give_back(model::JobId id, const std::optional<model::Outcome>& outcome);

  // What time brings.

  /// As Fence::keep.
  [[nodiscard]] std::vector<std::string> keep_fences();
  /// The daemon ends; what runs goes on.
  void leave() const;
  /// Ends what is over its limit, turns to the CPU what waited long enough.
  void mind_time();
  /// Where somebody set the machine's clock, the times of jobs move along.
  void mind_clock();
  /// What users had of the machine is written down, for a broker that follows.
  void keep_shares();
  /// What ended long ago, and what is too much, with its output.
  void forget_old();
  /// Something was written that is not on the disk for certain; asking makes it so once.
  [[nodiscard]] bool is_dirty() { return std::exchange(is_dirty_, false); }
  /// May be called from another thread.
  void sync() const { journal_.sync(); }
  void tidy(bool is_quiet) { journal_.tidy(is_quiet); }

 private:
  /// A running job that was told to end and has not yet.
  struct Stopped {
    policy::Instant since{0};
    int pressed = 0;  // how often it was told again, in stronger words
  };
  void restore_drained();
  [[nodiscard]] std::optional<model::Outcome> outcome_before_restart(const model::Job& job) const;
  [[nodiscard]] std::vector<model::JobId> put_back(std::vector<model::Job>& jobs) const;
  void bring_back(const std::vector<model::Job>& jobs);
  void take_over(const std::vector<model::Job>& jobs, bool is_restarted);
  void forget_all();
  void find_what_others_gave();
  void restore_shares();
  void know_user(const model::Job& job);
  [[nodiscard]] std::int64_t too_much_output_before();
  [[nodiscard]] std::map<std::uint32_t, std::int64_t> too_many_before() const;
  [[nodiscard]] Status keep_launch(const broker::Submission& asked, const Peer& peer);
  [[nodiscard]] Result<run::Launch> launch_of(const model::Job& job);
  void note_long_output();
  void find_again(const model::Job& job, bool is_restarted);
  void enclose(model::JobId id);
  void end(model::JobId id, model::JobState state, const std::optional<model::Outcome>& outcome,
           std::string why);
  [[nodiscard]] std::vector<std::string> leased_units() const;
  [[nodiscard]] std::vector<std::string> units_of_others();
  void all_gone(model::JobId id);
  void end_lost(model::JobId id);
  void keeper_gone(const model::Job& job);
  void launch_soon(model::JobId id);
  void launch_next();
  void launch(model::JobId id);
  void stop(model::JobId id, const model::ToldToEnd& how);
  void tell_stopped();
  void press(policy::Instant at);
  void fail(Error error);
  /// What is told of an end that was asked for; else the other.
  [[nodiscard]] model::ToldToEnd how_stopped(model::JobId id, const model::ToldToEnd& else_so);
  void stop_what_is_over_its_limit();

  // Values in the journal.
  static constexpr const char *kDrained = "drained", *kShares = "shares", *kClock = "clock",
                              *kTried = "tried";

  boost::asio::io_context& loop_;
  const DaemonOptions& options_;
  broker::Broker broker_{options_.settings.rules};
  broker::Journal journal_;
  Launcher launcher_;
  std::optional<Fence> fence_;
  std::vector<std::string> notes_;
  // Root's broker asks nobody: else who holds a lock takes the device from everybody.
  system::DeviceLocks locks_{options_.for_all ? "" : options_.lock_folder};
  /// What brokers of users gave away before that of all users came: theirs until it comes free. Of
  /// locks that are taken later it knows nothing.
  std::vector<std::string> before_us_;
  bool has_looked_at_locks_ = false;
  Watches watches_;
  std::function<void(const std::set<model::JobId>&)> changed_;
  /// What was kept or asked for last: jobs of an array have it in common, and most others start as
  /// soon as they are there.
  std::pair<model::JobId, run::Launch> last_launch_;
  std::deque<model::JobId> to_launch_;
  std::map<model::JobId, Stopped> stopped_;
  std::map<model::JobId, policy::Instant> told_by_others_;  // to end, since; and did
  std::vector<model::JobId> to_tell_;  // of those, who is told when it is written down
  std::optional<Error> fault_;
  bool is_ahead_ = false;  // of the journal, which refused it
  bool is_dirty_ = false;
  std::set<std::uint32_t> known_users_;
  std::map<model::JobId, std::uint64_t> output_bytes_;  // of jobs that ended
  std::map<model::JobId, std::uint64_t> noted_bytes_;   // of those that ran, when it was said
  std::string shares_;                                  // as they were written down last
  WallClock clock_;
};

}  // namespace berth::serve
