// A lease: the right to use devices. It lasts while this process or the job's keeper (the parent
// process of the job's program) is alive. The class finds or starts the broker, and reconnects if
// the broker was restarted.
#pragma once

#include <algorithm>
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
    model::Job job;  // with its request, name, command (for display only) and limits
    bool may_wait = true;
    /// Called once, after a second of waiting. The error says who holds the devices. Its hint is a
    /// request that would work now.
    std::function<void(const Error&)> on_waiting;
  };

  /// Waits until the lease is granted. Fails with the errors of reach() and of the broker's
  /// place(), and with kRefused (E0412) if `wishes` do not allow waiting.
  [[nodiscard]] static Result<Lease> take(const Wishes& wishes, const model::Snapshot& snapshot,
                                          IfNone if_none);
  /// Like take(), but in steps: ask() sends the request, wait() waits at most this long (false: not
  /// granted yet), and take_back() withdraws the request.
  [[nodiscard]] static Result<Lease> ask(const model::Job& job, IfNone if_none,
                                         const std::string& program = kThisProgram);
  [[nodiscard]] Result<bool> wait(std::chrono::milliseconds at_most);
  void take_back();
  /// Who holds the devices for which the lease waits.
  [[nodiscard]] Error who_holds(const model::Snapshot& snapshot);
  /// Devices and driver as the broker reads them.
  [[nodiscard]] Result<model::Snapshot> machine();
  /// The lease that this process already runs in (BERTH_JOB); nullopt if there is none. The lease
  /// belongs to the outer job, so end() does nothing. Fails with kRefused (E0421: the lease is too
  /// small for the request).
  [[nodiscard]] static Result<std::optional<Lease>> around_us(const model::Request& request);

  [[nodiscard]] model::JobId job() const { return job_.id; }
  [[nodiscard]] const model::Job& whole_job() const { return job_; }
  [[nodiscard]] bool is_granted() const { return job_.state == model::JobState::kRunning; }
  [[nodiscard]] bool waited() const { return waited_; }
  [[nodiscard]] bool is_ours() const { return ours_; }
  /// Whether the broker made a MIG partition for this job, and will remove it.
  [[nodiscard]] bool has_made_partition() const {
    return std::any_of(job_.grants.begin(), job_.grants.end(),
                       [](const model::Grant& one) { return one.made; });
  }
  /// Whether the job has its own control group; its processes must enter the group before they do
  /// anything else.
  [[nodiscard]] bool is_enclosed() const { return ours_ && !job_.group.empty(); }
  /// The folder of the job's control group, even if this process already runs in it; "" if the job
  /// has none.
  [[nodiscard]] const std::string& group() const { return job_.group; }
  /// How the job is kept from using other devices: by the kernel, or only by variables. This
  /// applies to this process, or to the keeper after enter().
  [[nodiscard]] model::Access access() const { return job_.access; }
  /// The job's memory and share of a device, which `berth resize` may have changed in the broker.
  /// nullopt: the broker does not answer within that time. Never waits longer and never starts a
  /// broker, because the caller monitors a job meanwhile.
  [[nodiscard]] std::optional<model::Grant> granted_now(std::chrono::milliseconds at_most);
  /// Whether the broker is ending this job because another job needs its devices. Also false if the
  /// broker does not answer within `at_most`.
  [[nodiscard]] bool is_preempted(std::chrono::milliseconds at_most);
  /// Asks the broker to put this queued job back into the queue when it has ended, for its next
  /// try. Gives up after `at_most`, and starts no broker. Fails with the errors of
  /// Broker::set_next_try() and with kUnavailable.
  [[nodiscard]] Status ask_for_next_try(const model::QueuedTry& next,
                                        std::chrono::milliseconds at_most);
  /// Tells the broker where the job's ranks hang; "": they do not hang any more. False if the
  /// broker does not answer within that time.
  [[nodiscard]] bool report_hang(const std::string& sentence, std::chrono::milliseconds at_most);
  /// The request as granted: the job may have been moved to the CPU while it waited.
  [[nodiscard]] model::Request request(const model::Request& asked) const;
  /// The devices of the lease in the current snapshot. Fails with the errors of place().
  [[nodiscard]] Result<model::Placement> placement(const model::Request& request,
                                                   const model::Snapshot& snapshot) const;
  /// From now on the lease lasts until both this process and the keeper (the parent process of the
  /// job's program) have ended.
  void share_with(pid_t keeper);
  /// Moves the keeper, and so everything that it will start, into the job's control group. Then
  /// shares the lease with the keeper. Fails with the broker's errors.
  [[nodiscard]] Status enter(pid_t keeper);
  /// Ends the lease. While processes of the job are stuck, no other job gets its devices. Returns
  /// how often the kernel denied the job access to a device outside the lease.
  std::uint64_t end(const model::Outcome& outcome, const model::JobUsage& usage = {},
                    const std::vector<model::ProcessId>& stuck = {});
  /// Call it after end(). Sends the report, in the form of output::stored_report, to the broker, so
  /// that `berth report` can show it. Gives up after `at_most`, because the user waits for the
  /// prompt.
  void keep_report(const std::string& stored, std::chrono::milliseconds at_most);
  /// The keeper, a forked child of the lease's owner, calls this after the owner was killed. Ends
  /// the lease. The job counts as lost, and its devices are set aside. Opens a new connection.
  void end_without_front(const std::vector<model::ProcessId>& stuck) const;
  /// After end(): a sentence that says why the broker ended the job; "" if the broker did not end
  /// the job.
  [[nodiscard]] std::string ended_because() const;
  /// The job's outcome if the broker ended the job because it was cancelled or exceeded its time
  /// limit; nullopt if not.
  [[nodiscard]] std::optional<model::Outcome> outcome_if_told_to_end() const;

 private:
  Lease(Client client, model::Job job) : client_(std::move(client)), job_(std::move(job)) {}
  [[nodiscard]] Status wait(const Wishes& wishes, const model::Snapshot& snapshot);
  [[nodiscard]] Result<Response> call(std::string_view method, const std::string& path,
                                      const std::string& body = {});
  [[nodiscard]] Status reconnect();
  [[nodiscard]] std::optional<model::Job> job_now(std::chrono::milliseconds at_most);
  /// nullopt: the broker did not answer within `at_most`.
  [[nodiscard]] std::optional<Response> call_now(std::string_view method, const std::string& what,
                                                 const std::string& body,
                                                 std::chrono::milliseconds at_most);
  void forget_connection();
  void share_locks();

  std::optional<Client> client_;
  /// The path of the broker's socket, or the path that a broker would use if none runs.
  std::string socket_;
  std::string program_ = kThisProgram;  // the program that is run to start a broker
  model::Job job_;
  std::vector<Descriptor>
      locks_;  // locks on the lease's devices; the broker holds locks too, but it may be killed
  bool waited_ = false, ours_ = true;
  Following following_;
  bool asking_ = false;  // true until the answer to ?wait=started has come
};

/// Whether this process reads a recorded machine, or uses a replaced NVML library. The broker reads
/// the real machine, so it cannot lease the devices that this process sees.
[[nodiscard]] bool is_another_machine();
/// A sentence that says why this user's broker cannot lease this device. It names the user and the
/// process that hold the device's lock, if the kernel shows them.
[[nodiscard]] std::string who_has_elsewhere(const std::string& unit);
/// Does the same as reach(), but fails if is_another_machine() is true.
[[nodiscard]] Result<Client> broker_here(IfNone if_none, const std::string& program = kThisProgram);
/// The leases of running jobs, and the units that no job can get.
[[nodiscard]] model::Ledger ledger_of(const std::vector<model::Job>& jobs,
                                      const model::ClosedUnits& closed);
/// The ledger (the leases and the closed units) of the running broker; empty if no broker runs.
/// Fails with kUnavailable if the broker does not answer, because then it is unknown what is
/// leased.
[[nodiscard]] Result<model::Ledger> ledger_now();

}  // namespace berth::client
