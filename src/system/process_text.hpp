// The texts of /proc/PID, parsed: pure, bounded, and written for hostile input, because a process
// chooses its own name and arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::system {

/// The fields of /proc/PID/stat that we use (proc(5)); `name` points into the text that was parsed.
struct StatLine {
  std::int64_t pid = 0;
  std::string_view
      name;  // of the program, as the process calls itself: any bytes, also ')' and line ends
  char state = '?';
  std::int64_t parent = 0;
  std::uint64_t flags = 0;
  std::uint64_t cpu_ticks = 0;  // user and system together
  std::uint64_t start_ticks = 0;
  std::uint64_t virtual_bytes = 0;
  std::uint64_t rss_pages = 0;
};

/// nullopt where the line is cut short or is not of this form.
[[nodiscard]] std::optional<StatLine> parse_stat(std::string_view text);

/// A kernel thread: no program, no arguments, no files (PF_KTHREAD in include/linux/sched.h).
[[nodiscard]] inline bool is_kernel_thread(const StatLine& stat) {
  return (stat.flags & 0x0020'0000U) != 0;
}

/// What /proc/PID/status tells beyond stat.
struct StatusText {
  std::optional<std::uint32_t> uid;          // the effective one
  std::optional<std::uint64_t> rss_bytes;    // absent for kernel threads and zombies
  std::vector<std::int64_t> namespace_pids;  // NSpid: from the namespace of this /proc inward
};
[[nodiscard]] StatusText parse_status(std::string_view text);

/// The bytes of /proc/PID/cmdline as one printable line: arguments joined by blanks, without the
/// padding at the end that programs leave which rewrite their title.
[[nodiscard]] std::string command_line(std::string_view bytes);

/// The name of a user id in the text of a passwd file; "" where it has none there.
[[nodiscard]] std::string user_in_passwd(std::string_view passwd, std::uint32_t uid);

}  // namespace berth::system
