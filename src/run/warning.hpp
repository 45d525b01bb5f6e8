// The signal that a job asked for some time before its time limit (--signal). The broker keeps the
// time and tells the keeper; the keeper passes the signal on.
#pragma once

#include <csignal>

#include <sys/signalfd.h>

namespace berth::run {

/// A keeper that gets one of the job's signals with this value passes it on to the job; without it
/// the signal is for the keeper.
inline constexpr int kPassOn = 0x42657274;

/// Signals that --signal knows, and SIGTERM: a keeper blocks and reads them.
void add_keeper_signals(sigset_t& set);
[[nodiscard]] bool is_to_be_passed_on(const signalfd_siginfo& info);

/// To the processes below us that handle it: from the top down, and nobody below one that does. A
/// process that does not handle it would only die of it. How many got it.
int warn_descendants(int signal);

}  // namespace berth::run
