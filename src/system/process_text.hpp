// Parses the texts of /proc/PID. Pure, with limits on sizes; the input is untrusted, because a
// process chooses its own name and arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::system {

/// The fields of /proc/PID/stat that Berth uses (proc(5)). `name` points into the parsed text.
struct StatLine {
  std::int64_t pid = 0;
  std::string_view
      name;  // set by the process itself, so it may contain any bytes, including ')' and newlines
  char state = '?';
  std::int64_t parent = 0;
  std::uint64_t flags = 0;
  std::uint64_t cpu_ticks = 0;  // user time and system time
  std::uint64_t threads = 0;
  std::uint64_t start_ticks = 0;
  std::uint64_t virtual_bytes = 0;
  std::uint64_t rss_pages = 0;
};

/// Parses the line; nullopt if it is truncated or invalid.
[[nodiscard]] std::optional<StatLine> parse_stat(std::string_view text);

/// Whether the process is a kernel thread (PF_KTHREAD in include/linux/sched.h). A kernel thread
/// has no program, arguments or files.
[[nodiscard]] inline bool is_kernel_thread(const StatLine& stat) {
  return (stat.flags & 0x0020'0000U) != 0;
}

/// Fields of /proc/PID/status that are not in stat.
struct StatusText {
  std::optional<std::uint32_t> uid;        // the effective uid
  std::optional<std::uint64_t> rss_bytes;  // kernel threads and zombies have none
  std::vector<std::int64_t>
      namespace_pids;  // NSpid: the pid in each namespace, from that of this /proc inward
};
[[nodiscard]] StatusText parse_status(std::string_view text);

/// The bytes of /proc/PID/cmdline as one printable line: arguments joined by blanks, without the
/// padding that programs leave when they change their title.
[[nodiscard]] std::string command_line(std::string_view bytes);

/// The name of a user id in the text of a passwd file; "" if it does not exist.
[[nodiscard]] std::string user_in_passwd(std::string_view passwd, std::uint32_t uid);

}  // namespace berth::system
