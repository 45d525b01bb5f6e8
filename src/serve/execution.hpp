// Execution: carries out what the broker decides, and tells it what became of it. Every change is
// in the journal before anyone is told of it and before anything is started; where the journal
// refuses it, there is a fault(), and the daemon ends, to begin again from what was written.
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
#include "serve/device_locks.hpp"
#include "serve/launcher.hpp"
#include "serve/observer.hpp"
#include "serve/server.hpp"
#include "serve/watches.hpp"

namespace berth::serve {

/// Steady for reckoning, the wall's for people.
[[nodiscard]] broker::Now now();

class Execution {
 public:
  /// `changed`: called with the jobs that changed, after they were written down.
  Execution(boost::asio::io_context& loop, const DaemonOptions& options, broker::Journal journal,
            Launcher launcher, std::function<void(const std::set<model::JobId>&)> changed);

  [[nodiscard]] const broker::Broker& broker() const { return broker_; }
  [[nodiscard]] const std::optional<Error>& fault() const { return fault_; }
  /// Processes whose descendants are jobs'.
  [[nodiscard]] std::vector<JobRoot> roots() const { return watches_.roots(); }
  /// Where its output goes; "" of what is no queued job.
  [[nodiscard]] std::string log_of(const model::Job& job) const {
    return job.queued ? launcher_.log(job.id) : "";
  }

  void see(Look look);
  /// What the journal holds; once, after the first see().
  void restore();
  /// Starts what fits, writes down what changed, and tells of it. False where there is a fault.
  bool settle();

  // What callers may ask for; each needs a settle() after it. Who they are the kernel has said.

  /// `call`: of a job that is queued, with its "spec". Fails as Broker::submit, Launcher::prepare.
  [[nodiscard]] Result<model::JobId> submit(model::Job job, const Call& call);
  /// Returns the array's id. Fails as submit().
  [[nodiscard]] Result<model::JobId> submit_array(const model::Job& job,
                                                  const model::ArrayRange& range, const Call& call);
  /// Fails as Broker::cancel. One that runs is told to end.
  [[nodiscard]] Status cancel(model::JobId id, broker::Caller caller);
  /// Fails as Broker::hold.
  [[nodiscard]] Status hold(model::JobId id, bool held, broker::Caller caller);
  void set_owners(model::JobId id, const std::vector<model::ProcessId>& owners);
  /// A unit that gets no new jobs, or gets them again; written down at once. Fails as
  /// Broker::drain, Journal::set_value.
  [[nodiscard]] Status drain(const std::string& unit, bool drained);
  /// A lease is given back.
  void give_back(model::JobId id, const std::optional<model::Outcome>& outcome);

  // What time brings.

  /// Ends what is over its limit, turns to the CPU what waited long enough.
  void mind_time();
  /// What users had of the machine is written down, for a broker that follows.
  void keep_shares();
  /// What ended long ago, and what is too much, with its output.
  void forget_old();
  /// Something was written that is not on the disk for certain; asking makes it so once.
  [[nodiscard]] bool is_dirty() { return std::exchange(is_dirty_, false); }
  /// May be called from another thread.
  void sync() const { journal_.sync(); }
  void tidy() { journal_.tidy(); }

 private:
  /// Who ended a running job, and why: until its keeper has.
  struct Stopped {
    model::JobState state = model::JobState::kCancelled;
    std::string why;
  };
  void restore_drained();
  void restore_shares();
  void know_user(const model::Job& job);
  [[nodiscard]] std::int64_t too_much_output_before();
  void find_again(const model::Job& job);
  [[nodiscard]] std::vector<std::string> leased_units() const;
  void all_gone(model::JobId id);
  void end_lost(model::JobId id);
  void keeper_gone(const model::Job& job);
  void launch_soon(model::JobId id);
  void launch_next();
  void launch(model::JobId id);
  void stop(model::JobId id, Stopped how);
  void stop_what_is_over_its_limit();

  boost::asio::io_context& loop_;
  const DaemonOptions& options_;
  broker::Broker broker_{options_.settings.rules};
  broker::Journal journal_;
  Launcher launcher_;
  DeviceLocks locks_{options_.lock_folder};
  Watches watches_;
  std::function<void(const std::set<model::JobId>&)> changed_;
  std::deque<model::JobId> to_launch_;
  std::map<model::JobId, Stopped> stopped_;
  std::optional<Error> fault_;
  bool is_dirty_ = false;
  std::set<std::uint32_t> known_users_;
  std::map<model::JobId, std::uint64_t> output_bytes_;  // of jobs that ended
  std::string shares_;                                  // as they were written down last
};

}  // namespace berth::serve
