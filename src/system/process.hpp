// One process from /proc: what the caller may read there and nothing more.
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

/// How much of a process is read: each file of /proc/PID costs some microseconds of the kernel's
/// time.
enum class Depth : unsigned char {
  kUser,  // uid and user: one call of the kernel
  kAll,
};

/// Where a process lives, from its cgroup paths alone (docker, podman, containerd, CRI-O,
/// Kubernetes, LXC, systemd, Slurm).
struct Home {
  std::string container, unit, pod;
};
[[nodiscard]] Home home_of(std::string_view cgroup_file);

/// Names of users from etc/passwd of a root; on the real one also from wherever the C library finds
/// them.
class UserNames {
 public:
  explicit UserNames(std::string etc) : etc_(std::move(etc)) {}
  /// The number itself where the user has no name, as `ps` does.
  [[nodiscard]] const std::string& of(std::uint32_t uid);

 private:
  std::string etc_;
  std::optional<std::string> passwd_;
  std::map<std::uint32_t, std::string> known_;
  int asked_elsewhere_ = 0;
};

/// Of a name, or a number as it is; nullopt: there is no such group.
[[nodiscard]] std::optional<std::uint32_t> group_id(const std::string& name);

/// Fills the /proc half of `process` (uid … pod) for `pid`; false where there is no such process.
/// Caches user names, so keep one for many processes. Not for use from several threads.
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
  bool procfs_ = false;  // the kernel's own, not a recorded tree
  std::optional<double> recorded_uptime_;
  UserNames users_;
  std::string last_cgroup_;  // most processes of a job share theirs
  Home last_home_;
};

/// All pids in /proc, ascending.
[[nodiscard]] std::vector<std::int64_t> list_pids(const std::string& proc);

/// A process that has device nodes open.
struct NodeHolder {
  model::Holder holder;
  std::vector<std::string> nodes;  // "/dev/nvidia0", …: ascending, each once
};
struct HolderSearch {
  std::vector<NodeHolder> holders;  // by pid
  bool all_readable = true;  // false: there are processes whose descriptors the caller may not see
  bool finished = true;      // false: time was up before all processes were looked at
};
/// Processes with an open descriptor on a node whose path begins with one of `prefixes`
/// ("/dev/nvidia"), as far as the caller may look and `limit` allows: as root every descriptor of
/// every process is looked at, which can be millions.
[[nodiscard]] HolderSearch find_holders(const Roots& roots,
                                        const std::vector<std::string>& prefixes,
                                        std::chrono::milliseconds limit);
/// The same for one prefix, in at most a tenth of a second.
[[nodiscard]] std::vector<model::Holder> device_holders(const Roots& roots,
                                                        const std::string& dev_prefix);

}  // namespace berth::system
