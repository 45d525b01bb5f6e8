// A cgroup v2 control group: a folder to create, fill, empty and remove.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"
#include "system/cgroup.hpp"

namespace berth::system {

/// Where cgroup v2 is mounted; nullopt: nowhere visible. It may be the only hierarchy or coexist
/// with v1.
[[nodiscard]] std::optional<CgroupMount> unified_mount(const std::string& proc);
/// The folder of a process's group ("self": ours); "" if it is not visible.
[[nodiscard]] std::string group_of(const std::string& proc, const CgroupMount& mount,
                                   const std::string& pid);

class ControlGroup {
 public:
  explicit ControlGroup(std::string folder) : folder_(std::move(folder)) {}

  /// Creates the group and missing parents. Fails with kUnsupported (E0940).
  [[nodiscard]] Status make() const;
  /// Moves a process with all its threads; future children follow. 0: the caller. False: see errno.
  [[nodiscard]] bool enter(pid_t pid) const;
  /// Processes in this group and the groups below.
  [[nodiscard]] std::vector<pid_t> processes() const;
  [[nodiscard]] bool is_there() const;
  [[nodiscard]] bool is_empty() const;
  /// Sends SIGKILL to all processes in the group and below, including those being forked right now.
  /// They may still exist when this returns.
  void kill() const;
  /// Removes the group and all groups below; false if a process still lives in them.
  [[nodiscard]] bool remove() const;
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  [[nodiscard]] std::vector<std::string> with_those_below() const;
  std::string folder_;
};

}  // namespace berth::system
