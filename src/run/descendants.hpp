// The processes below one: found through /proc by parentage, signalled through pidfds, so that a
// number that was given to another process in between is never hit.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace berth::run {

/// The fields of /proc/PID/stat that matter here.
struct ProcessStat {
  pid_t parent = 0;
  char state = '?';
  std::uint64_t start_ticks = 0;
  std::uint64_t virtual_bytes = 0;
  std::uint64_t rss_pages = 0;
};
/// nullopt where there is no such process.
[[nodiscard]] std::optional<ProcessStat> read_stat(const std::string& proc, pid_t pid);

struct Relative {
  pid_t pid = 0;
  ProcessStat stat;
};
/// Everything below `root`, without itself; zombies too.
[[nodiscard]] std::vector<Relative> descendants(pid_t root, const std::string& proc = "/proc");

/// Its command line in one line, as far as it may be read; else its short name, else "".
[[nodiscard]] std::string command_of(pid_t pid);

/// Below ourselves, without those, and without all below them.
[[nodiscard]] std::vector<Relative> descendants_but(const std::vector<pid_t>& spared);

/// How many could not be signalled because they belong to another user.
int signal_all(const std::vector<Relative>& processes, int signal);

}  // namespace berth::run
