// The front: the process that the user's shell started. It keeps the terminal while the job runs,
// forwards signals that were sent to it, stops when the job stops, and returns the job's exit code.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/run.hpp"
#include "run/launch.hpp"

namespace berth::run {

/// Observes the running job; the front's loop calls it.
class Watcher {
 public:
  Watcher() = default;
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  virtual ~Watcher() = default;
  /// Called when the keeper has been forked and waits, but only for a job that gets its own control
  /// group.
  virtual void born(pid_t) {}
  /// Called when the command runs. All of the job's processes are descendants of `keeper`.
  virtual void started(pid_t keeper, pid_t workload) = 0;
  /// Called in the keeper's process if the front is gone, and these processes could not be killed.
  virtual void stuck_without_front(const std::vector<model::ProcessId>&) const {}
  /// Called when the command has ended. Its remaining processes may still exist.
  virtual void ended() {}
  /// When to call look() next.
  [[nodiscard]] virtual std::chrono::steady_clock::time_point due() const = 0;
  virtual void look() = 0;
  /// A descriptor that becomes readable when look() should be called; -1: none.
  [[nodiscard]] virtual int descriptor() const = 0;
};

struct Ending {
  model::Outcome outcome;
  std::chrono::milliseconds wall{0}, cpu{0};
  std::uint64_t peak_rss_bytes = 0;  // peak memory of the largest reaped process
  int left = 0;                      // processes that could not be ended
  // processes that could not be ended because they wait in the kernel
  std::vector<model::ProcessId> stuck;
  std::vector<model::LeftBehind> left_behind;
  model::CheckpointSignal checkpoint;
  int pin_error = 0;         // errno if the CPU affinity could not be set
  bool interrupted = false;  // whether SIGINT from the terminal ended the job
};

/// Starts the job and returns when none of its processes is left. All signals stay blocked after
/// this. Fails with E0510 (no such command), E0511 (cannot be executed), E0512 (cannot start),
/// E0513 (the keeper was killed).
[[nodiscard]] Result<Ending> run_job(const Launch& launch, Inherited& inherited, Watcher& watcher);

/// If Ctrl-C ended the job, kills this process with SIGINT too, so that a loop in the caller's
/// shell also stops. The shell's exit code is 130, as if this process had returned it. Returns if
/// the caller ignores SIGINT.
void die_of_interrupt();

}  // namespace berth::run
