// The signal that a job requested before it is ended. With --signal it comes some time before the
// time limit; with --checkpoint-signal also before anything else ends the job. The broker keeps the
// time limit and notifies the keeper, which passes the signal on.
#pragma once

#include <csignal>

#include <sys/signalfd.h>

#include <chrono>
#include <functional>
#include <string>

#include "base/descriptor.hpp"
#include "model/job.hpp"
#include "model/run.hpp"
#include "run/ending.hpp"

namespace berth::run {

/// If a signal with this value reaches a keeper, it passes the signal on to the job. A signal
/// without the value is meant for the keeper itself.
inline constexpr int kPassOn = 0x42657274;

/// The signals that --signal accepts, and SIGTERM. A keeper blocks and reads them.
void add_keeper_signals(sigset_t& set);
[[nodiscard]] bool is_to_be_passed_on(const signalfd_siginfo& info);

struct Warned {
  int signalled = 0;  // processes that got the signal
  int handlers = 0;   // programs of the job that handle it; Berth's own processes do not count
};
/// Signals the descendants that handle the signal. If a process handles it, its own descendants are
/// not signalled. A process without a handler is skipped, because the signal would kill it. The
/// signal has the value kPassOn, so that a `berth run` or a supervisor among them does the same
/// with its own descendants. `spared`: a process that is not signalled.
Warned warn_descendants(int signal, pid_t spared = -1);
/// "SIGUSR1 was not sent, because no process of the job handles it"
[[nodiscard]] std::string not_sent_sentence(int signal);

/// Whether the process runs this program: a `berth run`, its keeper, a supervisor, or a child that
/// has not executed its command yet.
[[nodiscard]] bool is_berth(pid_t pid);

/// Waits, at most a second, until the workload executes its command. Until then, the workload has
/// all signals blocked, as if it handled them. `hear` reads `trouble` and resets it when it has
/// closed.
void wait_for_the_start(const Descriptor& trouble, const std::function<void()>& hear);

/// The signal of --checkpoint-signal, as a keeper sends it.
class Checkpoint {
 public:
  explicit Checkpoint(const model::Warning& wish) : wish_(wish) {}

  /// Sends the signal, if the job requested it and it was not sent yet. Returns how much time is
  /// left until SIGTERM. Returns 0 also if no process handles the signal.
  std::chrono::milliseconds send();
  /// Begins to end a job: sends the signal, and continues stopped processes, so that they can save.
  /// The returned plan gives them time to save, and then sends SIGTERM with this grace time. The
  /// plan keeps a reference to `has_ended`.
  [[nodiscard]] EndingPlan plan_of_end(std::chrono::milliseconds grace, const bool& has_ended);
  [[nodiscard]] bool is_wanted() const { return wish_.signal != 0; }
  [[nodiscard]] int signal() const { return wish_.signal; }
  /// Call it when the command has ended or gets SIGTERM. Only the first call counts.
  void finish(bool by_itself);
  [[nodiscard]] const model::CheckpointSignal& result() const { return result_; }

 private:
  model::Warning wish_;
  std::chrono::steady_clock::time_point sent_{};
  model::CheckpointSignal result_;  // its signal is 0 until the signal is sent
  bool is_finished_ = false;
};

}  // namespace berth::run
