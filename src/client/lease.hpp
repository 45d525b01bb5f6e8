// A lease: the right to devices for as long as this process or the job's keeper lives. What is
// behind it, the broker, is found or started here, and found again where it died meanwhile.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "client/jobs.hpp"
#include "client/reach.hpp"
#include "model/job.hpp"
#include "model/ledger.hpp"
#include "model/snapshot.hpp"

namespace berth::client {

class Lease {
 public:
  struct Wishes {
    model::Job job;  // its request, name, command (only to be told), limits
    bool may_wait = true;
    /// Called once, after a second: who holds what, and what would do instead.
    std::function<void(const Error&)> on_waiting;
  };

  /// Waits until it is granted. Fails as reach, as the broker's place(), and with kRefused
  /// (E0412) where it may not wait.
  [[nodiscard]] static Result<Lease> take(const Wishes& wishes, const model::Snapshot& snapshot,
                                          IfNone if_none);
  /// The same in steps: asks, waits for at most so long (false: not granted yet), and takes the
  /// question back.
  [[nodiscard]] static Result<Lease> ask(const model::Job& job, IfNone if_none,
                                         const std::string& program = kThisProgram);
  [[nodiscard]] Result<bool> wait(std::chrono::milliseconds at_most);
  void take_back();
  /// What it waits for.
  [[nodiscard]] Error who_holds(const model::Snapshot& snapshot);
  /// Devices and driver, as the broker sees them.
  [[nodiscard]] Result<model::Snapshot> machine();
  /// The lease that this process runs in already (BERTH_JOB); nullopt where there is none. It is
  /// the outer job's, so end() does nothing. Fails with kRefused (E0421) where it is too small.
  [[nodiscard]] static Result<std::optional<Lease>> around_us(const model::Request& request);

  [[nodiscard]] model::JobId job() const { return job_.id; }
  [[nodiscard]] const model::Job& whole_job() const { return job_; }
  [[nodiscard]] bool is_granted() const { return job_.state == model::JobState::kRunning; }
  [[nodiscard]] bool waited() const { return waited_; }
  [[nodiscard]] bool is_ours() const { return ours_; }
  /// It has a control group of its own, which its processes are to enter before they do anything.
  [[nodiscard]] bool is_enclosed() const { return ours_ && !job_.group.empty(); }
  /// What keeps this process, or what entered, from other devices.
  [[nodiscard]] model::Access access() const { return job_.access; }
  /// What was asked for, or what that became while it waited: on the CPU.
  [[nodiscard]] model::Request request(const model::Request& asked) const;
  /// Where it is, on the machine as it looks now. Fails as place().
  [[nodiscard]] Result<model::Placement> placement(const model::Request& request,
                                                   const model::Snapshot& snapshot) const;
  /// From now on it lasts as long as one of this process and the keeper does.
  void share_with(pid_t keeper);
  /// Brings the keeper into the job's control group, with all that it will start; the lease is
  /// shared with it then. Fails as the broker does.
  [[nodiscard]] Status enter(pid_t keeper);
  /// How often the kernel refused the job a device that was not its own.
  std::uint64_t end(const model::Outcome& outcome);
  /// Why it ended otherwise than by itself, after end(): a sentence; "" it did not.
  [[nodiscard]] std::string ended_because() const;

 private:
  Lease(Client client, model::Job job) : client_(std::move(client)), job_(std::move(job)) {}
  [[nodiscard]] Status wait(const Wishes& wishes, const model::Snapshot& snapshot);
  [[nodiscard]] Result<Response> call(std::string_view method, const std::string& path,
                                      const std::string& body = {});
  [[nodiscard]] Status reconnect();
  void forget_connection();
  void share_locks();

  std::optional<Client> client_;
  std::string socket_;                  // where it was, when there is none
  std::string program_ = kThisProgram;  // that starts a broker
  model::Job job_;
  std::vector<Descriptor> locks_;  // on its devices, shared with the broker, who may die
  bool waited_ = false, ours_ = true;
  Following following_;
  bool asking_ = false;  // an answer of ?wait=started is still to come
};

/// It is recorded, or seen through another library: not the one that this user's broker looks at,
/// and no devices of it can be given away.
[[nodiscard]] bool is_another_machine();
/// Who keeps our broker from giving this device away: the user whose process has its lock, where
/// the kernel tells.
[[nodiscard]] std::string who_has_elsewhere(const std::string& unit);
/// reach, where this machine is the one that a broker looks at.
[[nodiscard]] Result<Client> broker_here(IfNone if_none, const std::string& program = kThisProgram);
/// What running jobs have, and what no job can have.
[[nodiscard]] model::Ledger ledger_of(const std::vector<model::Job>& jobs, const Closed& closed);
/// That of the broker there is; an empty one where there is none.
[[nodiscard]] model::Ledger ledger_now();

}  // namespace berth::client
