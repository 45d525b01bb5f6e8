// One start of a job: its processes, their limits and their samples, until none of the processes is
// left. A job starts more than once if a retry needs other devices or variables.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "job/guard.hpp"
#include "job/hang_report.hpp"
#include "job/job.hpp"
#include "job/plan.hpp"
#include "job/spec.hpp"
#include "model/run.hpp"
#include "run/front.hpp"
#include "run/launch.hpp"
#include "run/sampler.hpp"

namespace berth::job {

/// Samples the job. Passes the lease on to the keeper, the process that supervises the command and
/// may live slightly longer than this one. Lets the guard compare its counters with those of the
/// driver, and reports hangs.
class LeasedJob : public run::Watcher {
 public:
  LeasedJob(run::Sampler& watcher, std::optional<client::Lease>& lease, Guard& guard,
            const run::Supervision* supervision)
      : watcher_(watcher), lease_(lease), guard_(guard), hang_(supervision, lease) {}
  void born(pid_t keeper) override {
    const auto entered = lease_->enter(keeper);
    if (entered)
      shared_ = true;
    else
      trouble_ = entered.error();
  }
  void started(pid_t keeper, pid_t workload) override {
    watcher_.started(keeper, workload);
    if (lease_ && !shared_) lease_->share_with(keeper);
  }
  /// Why the job could not be moved to its control group.
  [[nodiscard]] const std::optional<Error>& trouble() const { return trouble_; }
  [[nodiscard]] std::chrono::steady_clock::time_point due() const override {
    return watcher_.due();
  }
  void look() override {
    watcher_.look();
    guard_.look(lease_, watcher_);
    hang_.look(HangReport::Clock::now());
  }
  void stuck_without_front(const std::vector<model::ProcessId>& stuck) const override {
    if (lease_) lease_->end_without_front(stuck);
  }
  void ended() override { watcher_.ended(); }
  [[nodiscard]] int descriptor() const override { return watcher_.descriptor(); }

 private:
  run::Sampler& watcher_;
  std::optional<client::Lease>& lease_;
  Guard& guard_;
  HangReport hang_;
  std::optional<Error> trouble_;
  bool shared_ = false;
};

struct Limits {
  Guard guard;
  // path of the file to which the engine writes the container's id, or empty if there is none
  std::string container_id;
};

/// One start of the job, until none of its processes is left.
struct Start {
  Start(const Spec& spec, Plan& plan, Limits made, run::Launch with);

  run::Launch launch;
  Limits limits;
  model::Report begun;  // the parts that are known before the start
  run::Sampler sampler;
  LeasedJob watcher;
  Result<run::Ending> ending = run::Ending();
  /// How often the guard refused memory.
  [[nodiscard]] std::uint64_t guard_refusals() const;
  /// How much each device was used. Call it when all processes of this start have ended.
  [[nodiscard]] std::vector<model::DeviceUse> devices_used(const run::Ending& how,
                                                           const model::Snapshot& snapshot);

  /// Fills in what was observed. `refusals`: how often the kernel denied access to a device.
  void fill(model::Report& report, const Plan& plan, std::uint64_t refusals);
};

/// Starts the command and returns when none of its processes is left. Start::ending tells how the
/// command ended. Fails with the errors of Guard::begin() and enter_container().
[[nodiscard]] Result<std::unique_ptr<Start>> start_once(const Spec& spec, Plan& plan,
                                                        const Caller& caller,
                                                        run::Inherited& inherited);

}  // namespace berth::job
