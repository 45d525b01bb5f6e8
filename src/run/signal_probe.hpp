// Tells whether a signal that the front received was sent to its whole process group (the terminal,
// `kill %1`, a scheduler that signals every process of a job) or to the front alone. In the first
// case the workload has it already; only in the second case we pass it on, so that no signal
// arrives twice. The signal itself does not say which case it was.
//
// The probe is a process in the same group that only collects signals. The kernel signals a group
// from its newest member to its oldest (kernel/signal.c, __kill_pgrp_info over a list that grows at
// its head), so the probe has a group signal before the front has it.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>

#include "base/descriptor.hpp"

namespace berth::run {

class SignalProbe {
 public:
  /// Forks it. All signals must be blocked. Without one (no process to be had) every signal counts
  /// as the front's own.
  SignalProbe();
  ~SignalProbe();
  SignalProbe(const SignalProbe&) = delete;
  SignalProbe& operator=(const SignalProbe&) = delete;

  /// Whether the group got this signal too; each one it got answers once. Waits some milliseconds
  /// before a no.
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
