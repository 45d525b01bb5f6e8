// EndSignals holds back the signals that end a command while the command has children in their own
// sessions.
#pragma once

#include <chrono>
#include <csignal>
#include <ctime>

namespace berth::cli {

/// Holds back the signals that end this command while ssh programs for other machines run. Each ssh
/// has its own session, so Ctrl-C does not reach it, and this command must end it first.
class EndSignals {
 public:
  EndSignals() {
    ::sigemptyset(&held_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action {};
      const bool is_ignored =
          ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
      if (!is_ignored) ::sigaddset(&held_, signal);
    }
    ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;
  /// Stops holding signals back. If has_come() took a signal, raises it again, so that it ends the
  /// command.
  ~EndSignals() {
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    if (came_ > 0) ::raise(came_);
  }
  /// Waits up to `patience` (less than a second) for a signal. Returns true if a signal arrived.
  [[nodiscard]] bool has_come(std::chrono::milliseconds patience) {
    const timespec moment{0, patience.count() * 1'000'000};
    came_ = ::sigtimedwait(&held_, nullptr, &moment);
    return came_ > 0;
  }

 private:
  sigset_t held_{}, before_{};
  int came_ = 0;
};

}  // namespace berth::cli
