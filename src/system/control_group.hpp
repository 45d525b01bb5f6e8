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

/// The mount of cgroup v2; nullopt if none is visible. v2 may be the only hierarchy, or exist
/// together with v1.
[[nodiscard]] std::optional<CgroupMount> unified_mount(const std::string& proc);
/// The folder of a process's group; `"self"` is this process. Returns "" if the folder is not
/// visible.
[[nodiscard]] std::string group_of(const std::string& proc, const CgroupMount& mount,
                                   const std::string& pid);

class ControlGroup {
 public:
  explicit ControlGroup(std::string folder) : folder_(std::move(folder)) {}

  /// Creates the group and its missing parents. Fails with kUnsupported (E0940).
  [[nodiscard]] Status make() const;
  /// Moves a process with all its threads into the group. Its future children start in the group
  /// too. Pid 0 is the caller. Returns false with errno on failure.
  [[nodiscard]] bool enter(pid_t pid) const;
  /// Processes in this group and in the groups below it.
  [[nodiscard]] std::vector<pid_t> processes() const;
  [[nodiscard]] bool is_there() const;
  [[nodiscard]] bool is_empty() const;
  /// Sends SIGKILL to all processes in this group and below, including processes that are being
  /// forked at this moment. The processes may still exist when this returns.
  void kill() const;
  /// Removes the group and all groups below; false if a process still lives in them.
  [[nodiscard]] bool remove() const;
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  [[nodiscard]] std::vector<std::string> with_those_below() const;
  std::string folder_;
};

}  // namespace berth::system
