// Which file systems answer at all: whoever looks at a file of a server that is gone sleeps until
// it comes back. They are asked in a process of their own, before anything is looked at.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {

/// Mounts that somebody else serves (NFS, FUSE and the like), and not this kernel from its memory
/// or its disks: those of one device together.
[[nodiscard]] std::vector<std::vector<std::string>> served_mounts(const std::string& mountinfo);

class MountsAsked {
 public:
  /// Asks those that `process` (a folder of /proc) sees below `root`, and the folders that its
  /// variables lead to: an automounter may be about to mount something there.
  MountsAsked(const std::string& process, std::string root, const Environment& environment);
  ~MountsAsked();
  MountsAsked(const MountsAsked&) = delete;
  MountsAsked& operator=(const MountsAsked&) = delete;

  /// Those that have not answered `deadline` after the start, seen from `root`.
  [[nodiscard]] std::vector<std::string> finish(std::chrono::milliseconds deadline);

 private:
  std::vector<std::vector<std::string>> asked_;  // each answers as a whole
  std::chrono::steady_clock::time_point start_;
  Descriptor pipe_;
  pid_t child_ = -1;
};

}  // namespace berth::doctor
