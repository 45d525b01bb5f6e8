// Tells whether a signal that the front got was meant for its whole process group (the terminal,
// `kill %1`, a scheduler that signals every process of a job) or for the front alone. The workload
// has the first kind already and must be handed only the second, so that nothing reaches it twice;
// the signal itself does not say which it was.
//
// The witness is a process in the same group that does nothing but collect signals. The kernel
// serves a group from its newest member to its oldest (kernel/signal.c, __kill_pgrp_info over a
// list that grows at its head), so what the front has got from its group the witness has got
// before.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>

#include "base/descriptor.hpp"

namespace berth::run {

class Witness {
 public:
  /// Forks it. All signals must be blocked. Without one (no process to be had) every signal counts
  /// as the front's own.
  Witness();
  ~Witness();
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

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
