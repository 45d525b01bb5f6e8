// Finds out whether a signal that the front received was sent to its whole process group (by the
// terminal, `kill %1`, a scheduler that signals every process of a job) or only to the front. In
// the first case the workload has received it already. Only in the second case the front passes it
// on, so that no signal arrives twice. The signal itself does not show which case it is.
//
// The probe is a process in the same group that only records signals. The kernel signals a group
// from its newest member to its oldest (kernel/signal.c, __kill_pgrp_info over a list that grows at
// its head), so the probe receives a group signal before the front.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>

#include "base/descriptor.hpp"

namespace berth::run {

/// The probe's name in /proc/PID/comm.
inline constexpr const char* kSignalProbeName = "berth-signals";

class SignalProbe {
 public:
  /// Forks the probe. All signals must be blocked. If the fork fails, every signal counts as sent
  /// only to the front.
  SignalProbe();
  ~SignalProbe();
  SignalProbe(const SignalProbe&) = delete;
  SignalProbe& operator=(const SignalProbe&) = delete;

  /// Whether the group also received this signal; each one is reported once. Waits some
  /// milliseconds before it returns false.
  [[nodiscard]] bool saw(int signal);
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  [[nodiscard]] bool ask();

  pid_t pid_ = -1;
  Descriptor channel_;
  std::uint64_t questions_ = 0;
  std::array<std::chrono::steady_clock::time_point, 65> seen_at_{};
};

}  // namespace berth::run
