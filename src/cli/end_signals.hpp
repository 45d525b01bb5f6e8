// Signals that end a command, held back while it has children in sessions of their own.
#pragma once

#include <chrono>
#include <csignal>
#include <ctime>

namespace berth::cli {

/// Signals that end this command, held back while the programs that ask other machines run: these
/// have sessions of their own, and must end too.
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
  /// One that came stays held until here.
  ~EndSignals() {
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    if (came_ > 0) ::raise(came_);
  }
  /// Waits for one, less than a second.
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
