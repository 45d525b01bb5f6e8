// The descendants of a process. They are found in /proc by their parents, and signalled through
// pidfds, so that a process that reuses a pid is never signalled.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace berth::run {

/// The fields of /proc/PID/stat that are used here.
struct ProcessStat {
  pid_t parent = 0;
  char state = '?';
  std::uint64_t start_ticks = 0;
  std::uint64_t virtual_bytes = 0;
  std::uint64_t rss_pages = 0;
  std::uint64_t cpu_ticks = 0;  // CPU time in user and kernel mode
  std::uint64_t threads = 0;
  std::string name;  // as in /proc/PID/comm
};
/// Reads /proc/PID/stat; nullopt if there is no such process.
[[nodiscard]] std::optional<ProcessStat> read_stat(const std::string& proc, pid_t pid);

struct Relative {
  pid_t pid = 0;
  ProcessStat stat;
};
/// All descendants of `root`, including zombies.
[[nodiscard]] std::vector<Relative> descendants(pid_t root, const std::string& proc = "/proc");

/// The command line of a process, on one line. If it is not readable, the short name; "" if that is
/// not readable either.
[[nodiscard]] std::string command_of(pid_t pid);

/// Our descendants, except `spared` and their descendants.
[[nodiscard]] std::vector<Relative> descendants_except(const std::vector<pid_t>& spared);

/// The siginfo_t that sigqueue(3) would send from this process. Pass it to pidfd_send_signal(2).
[[nodiscard]] siginfo_t queued_signal(int signal, int value);

/// Sends the signal to all of the processes. Returns how many could not be signalled because they
/// belong to another user. `value`: sent with the signal, as by sigqueue(3).
int signal_all(const std::vector<Relative>& processes, int signal,
               std::optional<int> value = std::nullopt);

}  // namespace berth::run
