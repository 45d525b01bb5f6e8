// The signal that a job requested some time before its time limit (--signal). The broker keeps the
// time and notifies the keeper, which passes the signal on.
#pragma once

#include <csignal>

#include <sys/signalfd.h>

namespace berth::run {

/// A keeper that receives a signal with this value passes it on to the job. Without the value the
/// signal is meant for the keeper.
inline constexpr int kPassOn = 0x42657274;

/// The signals that --signal accepts, and SIGTERM. A keeper blocks and reads them.
void add_keeper_signals(sigset_t& set);
[[nodiscard]] bool is_to_be_passed_on(const signalfd_siginfo& info);

/// Signals the processes below us that handle the signal: from the top down, and none below a
/// process that does. A process without a handler would be killed by it. Returns how many were
/// signalled.
int warn_descendants(int signal);

}  // namespace berth::run
