// The signal that a job requested some time before its time limit (--signal). The broker keeps the
// time and notifies the keeper, which passes the signal on.
#pragma once

#include <csignal>

#include <sys/signalfd.h>

namespace berth::run {

/// If a signal with this value reaches a keeper, it passes the signal on to the job. A signal
/// without the value is meant for the keeper itself.
inline constexpr int kPassOn = 0x42657274;

/// The signals that --signal accepts, and SIGTERM. A keeper blocks and reads them.
void add_keeper_signals(sigset_t& set);
[[nodiscard]] bool is_to_be_passed_on(const signalfd_siginfo& info);

/// Signals the descendants that handle the signal. If a process handles it, its own descendants are
/// not signalled. A process without a handler is skipped, because the signal would kill it. Returns
/// how many were signalled.
int warn_descendants(int signal);

}  // namespace berth::run
