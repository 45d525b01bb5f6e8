// The front: the process the user's shell started. It holds the terminal's attention while the job
// runs, hands on the signals that were meant for it, stops when the job stops, and returns its exit
// code.
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

/// Looks at the job while it runs; called from the front's loop.
class Watcher {
 public:
  Watcher() = default;
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  virtual ~Watcher() = default;
  /// Before there is anything of the job, where it is launched enclosed.
  virtual void born(pid_t) {}
  /// The command runs; everything of the job is below `keeper`.
  virtual void started(pid_t keeper, pid_t workload) = 0;
  /// The command has ended; what it left behind may still be there.
  virtual void ended() {}
  /// When look() is due.
  [[nodiscard]] virtual std::chrono::steady_clock::time_point due() const = 0;
  virtual void look() = 0;
  /// A descriptor that calls for look() when it is readable; -1: none.
  [[nodiscard]] virtual int descriptor() const = 0;
};

struct Ending {
  model::Outcome outcome;
  std::chrono::milliseconds wall{0}, cpu{0};
  std::uint64_t peak_rss_bytes = 0;  // of the largest process that was waited for
  int left = 0;                      // processes that could not be ended
  std::vector<model::LeftBehind> left_behind;
  int pin_error = 0;         // errno of an affinity that could not be set
  bool interrupted = false;  // SIGINT of the terminal ended it
};

/// Starts the job and stays until nothing of it is left. All signals are blocked from here on.
/// Fails with E0510 (no such command), E0511 (cannot be executed), E0512 (cannot start), E0513 (the
/// keeper was killed).
[[nodiscard]] Result<Ending> run_job(const Launch& launch, Inherited& inherited, Watcher& watcher);

/// Where Ctrl-C ended the job, ends us the same way, so that a loop in the caller's shell stops as
/// well; for a shell it is the same exit code, 130. Returns where the caller ignores SIGINT.
void die_of_interrupt();

}  // namespace berth::run
