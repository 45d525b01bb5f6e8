// Reads one process from /proc, as far as the caller has permission.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "model/process.hpp"

namespace berth::system {

/// How much to read. Each file of /proc/PID costs the kernel some microseconds.
enum class Depth : unsigned char {
  kUser,  // reads only uid and user, which takes one system call
  kAll,
};

/// Where a process runs, according to its cgroup paths only (docker, podman, containerd, CRI-O,
/// Kubernetes, LXC, systemd, Slurm).
struct Home {
  std::string container, unit, pod;
};
[[nodiscard]] Home home_of(std::string_view cgroup_file);

/// User names from etc/passwd below a root folder. If that folder is the real root, also from the C
/// library.
class UserNames {
 public:
  explicit UserNames(std::string etc) : etc_(std::move(etc)) {}
  /// The name of a user. If there is none, returns the number as text, as `ps` does.
  [[nodiscard]] const std::string& of(std::uint32_t uid);

 private:
  std::string etc_;
  std::optional<std::string> passwd_;
  std::map<std::uint32_t, std::string> known_;
  int asked_elsewhere_ = 0;
};

/// The id of a group, given by name or by number. nullopt if there is no such group.
[[nodiscard]] std::optional<std::uint32_t> group_id(const std::string& name);

/// Fills the members of `process` that come from /proc (uid … pod) for `pid`; false if there is no
/// such process. Keep one reader for many processes, because it caches user names. Not thread-safe.
class ProcessReader {
 public:
  explicit ProcessReader(Roots roots);
  bool fill(model::DeviceProcess& process, std::int64_t pid, Depth depth = Depth::kAll);
  [[nodiscard]] std::string user_name(std::uint32_t uid) { return users_.of(uid); }

 private:
  void fill_owner(model::DeviceProcess& process, int folder, std::uint32_t owner);
  bool fill_rest(model::DeviceProcess& process, int folder);
  static void fill_command(model::DeviceProcess& process, int folder, std::string_view short_name);
  void fill_times(model::DeviceProcess& process, std::uint64_t cpu_ticks) const;
  void fill_home(model::DeviceProcess& process, int folder);
  [[nodiscard]] std::optional<double> uptime() const;

  Roots roots_;
  Descriptor proc_;
  bool procfs_ = false;  // whether this is the kernel's own /proc, and not a recorded tree
  std::optional<double> recorded_uptime_;
  UserNames users_;
  std::string last_cgroup_;  // a cache, because most processes of a job have the same cgroup text
  Home last_home_;
};

/// All pids in /proc, ascending.
[[nodiscard]] std::vector<std::int64_t> list_pids(const std::string& proc);

/// A process that has device nodes open.
struct NodeHolder {
  model::Holder holder;
  std::vector<std::string> nodes;  // "/dev/nvidia0", …: sorted, without duplicates
};
struct HolderSearch {
  std::vector<NodeHolder> holders;  // sorted by pid
  bool all_readable = true;  // false if the caller may not see the descriptors of some processes
  bool finished = true;  // false if the time limit ended the search before all processes were read
};
/// Processes with an open descriptor on a node whose path begins with one of `prefixes`
/// ("/dev/nvidia"). Skips processes that the caller may not read. For root, this reads every
/// descriptor of every process, possibly millions, so there is a time limit.
[[nodiscard]] HolderSearch find_holders(const Roots& roots,
                                        const std::vector<std::string>& prefixes,
                                        std::chrono::milliseconds limit);
/// Finds the processes that have nodes with this prefix open, as find_holders() does, within a
/// tenth of a second.
[[nodiscard]] std::vector<model::Holder> device_holders(const Roots& roots,
                                                        const std::string& dev_prefix);

}  // namespace berth::system
