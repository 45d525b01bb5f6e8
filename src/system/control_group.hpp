// A control group of cgroup v2 as a folder that is made, filled, emptied and removed.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"
#include "system/cgroup.hpp"

namespace berth::system {

/// Where cgroup v2 is mounted; nullopt: nowhere that we see. It may be the only hierarchy, or stand
/// beside those of v1.
[[nodiscard]] std::optional<CgroupMount> unified_mount(const std::string& proc);
/// The folder of a process's group ("self": ours); "" where it cannot be seen.
[[nodiscard]] std::string group_of(const std::string& proc, const CgroupMount& mount,
                                   const std::string& pid);

class ControlGroup {
 public:
  explicit ControlGroup(std::string folder) : folder_(std::move(folder)) {}

  /// With those above it that are missing. Fails with kUnsupported (E0940).
  [[nodiscard]] Status make() const;
  /// Moves a process with all its threads, and so the children that it will have. 0: the caller.
  /// False with errno set.
  [[nodiscard]] bool enter(pid_t pid) const;
  /// Of it and of the groups below.
  [[nodiscard]] std::vector<pid_t> processes() const;
  [[nodiscard]] bool is_there() const;
  [[nodiscard]] bool is_empty() const;
  /// SIGKILL to everything in it and below, also to what is being forked at this moment. They are
  /// not gone yet when this returns.
  void kill() const;
  /// With all groups below; false where something still lives in it.
  [[nodiscard]] bool remove() const;
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  [[nodiscard]] std::vector<std::string> with_those_below() const;
  std::string folder_;
};

}  // namespace berth::system
