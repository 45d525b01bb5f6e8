// Parses control groups: which ones a process is in, where they are mounted, and their limits. Pure
// functions of the kernel's text, for v1, v2 and hybrid systems; system/host reads the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::system {

/// One cgroup mount of mountinfo. `root` is the group whose folder is mounted; in a container it is
/// often not "/".
struct CgroupMount {
  bool v2 = false;
  std::string root, point;
  std::vector<std::string>
      controllers;  // for v1, from the super options ("cpu", "cpuacct"); empty for v2
};
[[nodiscard]] std::vector<CgroupMount> parse_cgroup_mounts(std::string_view mountinfo);

/// One line of /proc/PID/cgroup. In v2 it has no controllers.
struct CgroupMembership {
  bool v2 = false;
  std::vector<std::string> controllers;
  std::string path;
};
[[nodiscard]] std::vector<CgroupMembership> parse_cgroup(std::string_view text);

/// The folders whose limits apply to a process: its own group and every visible ancestor, innermost
/// first. A process in another cgroup namespace may have a path outside the mount's root. In that
/// case, returns only the mount point, which is the nearest visible group.
[[nodiscard]] std::vector<std::string> group_folders(const CgroupMount& mount,
                                                     std::string_view path);

/// Parses cpu.max of v2: 1.5 for "150000 100000"; nullopt for "max 100000" and invalid text.
[[nodiscard]] std::optional<double> parse_cpu_max(std::string_view text);
/// The quota from cpu.cfs_quota_us and cpu.cfs_period_us of v1; nullopt for -1.
[[nodiscard]] std::optional<double> quota_from(std::optional<std::int64_t> quota_microseconds,
                                               std::optional<std::int64_t> period_microseconds);
/// Parses memory.max or memory.limit_in_bytes. nullopt for "max", invalid text, and values that are
/// not below `machine_bytes`.
[[nodiscard]] std::optional<std::uint64_t> parse_memory_limit(std::string_view text,
                                                              std::uint64_t machine_bytes);
/// The value for a key in memory.stat, or in similar "key value" lines.
[[nodiscard]] std::optional<std::uint64_t> stat_value(std::string_view text, std::string_view key);

/// One mount of proc_pid_mountinfo(5). The members point into the parsed line.
struct MountLine {
  std::string_view root, point, type, super_options, device;
};
/// Parses "36 35 98:0 /root /point options [tags] - type source super-options"; nullopt if invalid.
[[nodiscard]] std::optional<MountLine> mount_line(std::string_view line);
/// Decodes octal escapes. mountinfo writes blanks, tabs, newlines and backslashes in this form:
/// "\040".
[[nodiscard]] std::string unescaped(std::string_view text);

}  // namespace berth::system
