// The signal that a job requested before it is ended. With --signal it comes some time before the
// time limit; with --checkpoint-signal also before anything else ends the job. The broker keeps the
// time limit and notifies the keeper, which passes the signal on.
#pragma once

#include <csignal>

#include <sys/signalfd.h>

#include <chrono>

#include "model/job.hpp"
#include "model/run.hpp"

namespace berth::run {

/// If a signal with this value reaches a keeper, it passes the signal on to the job. A signal
/// without the value is meant for the keeper itself.
inline constexpr int kPassOn = 0x42657274;

/// The signals that --signal accepts, and SIGTERM. A keeper blocks and reads them.
void add_keeper_signals(sigset_t& set);
[[nodiscard]] bool is_to_be_passed_on(const signalfd_siginfo& info);

/// Signals the descendants that handle the signal. If a process handles it, its own descendants are
/// not signalled. A process without a handler is skipped, because the signal would kill it. Returns
/// how many were signalled. The signal has the value kPassOn, so that a `berth run` or a supervisor
/// among them does the same with its own descendants. `spared`: a process that is not signalled.
int warn_descendants(int signal, pid_t spared = -1);

/// The signal of --checkpoint-signal, as a keeper sends it.
class Checkpoint {
 public:
  explicit Checkpoint(const model::Warning& wish) : wish_(wish) {}

  /// Sends the signal, if it was asked for and was not sent yet. Returns how much time is left
  /// until SIGTERM; 0 also if no process handles the signal.
  std::chrono::milliseconds send();
  [[nodiscard]] bool is_wanted() const { return wish_.signal != 0; }
  [[nodiscard]] int signal() const { return wish_.signal; }
  /// The command has ended, or gets SIGTERM now. Only the first call counts.
  void finish(bool by_itself);
  [[nodiscard]] const model::CheckpointSignal& result() const { return result_; }

 private:
  model::Warning wish_;
  std::chrono::steady_clock::time_point sent_{};
  model::CheckpointSignal result_;  // signal 0: not sent yet
  bool is_finished_ = false;
};

}  // namespace berth::run
