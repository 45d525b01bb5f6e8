// Tests which file systems answer. Accessing a file on a dead server blocks until the server
// returns. So a separate process tests all mounts before anything is read.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {

/// The mounts that a server or a user process provides (NFS, FUSE and similar). Such mounts can
/// hang. Mounts of one device form a group.
[[nodiscard]] std::vector<std::vector<std::string>> served_mounts(const std::string& mountinfo);

class MountsAsked {
 public:
  /// Tests the mounts that `process` (a folder of /proc) sees below `root`, and the folders in its
  /// variables, where an automounter may mount something.
  MountsAsked(const std::string& process, std::string root, const Environment& environment);
  ~MountsAsked();
  MountsAsked(const MountsAsked&) = delete;
  MountsAsked& operator=(const MountsAsked&) = delete;

  /// The mounts that have not answered `deadline` after the start, relative to `root`.
  [[nodiscard]] std::vector<std::string> finish(std::chrono::milliseconds deadline);

 private:
  /// Groups of mounts of one device. Only the first mount of each group is tested.
  std::vector<std::vector<std::string>> asked_;
  std::chrono::steady_clock::time_point start_;
  Descriptor pipe_;
  pid_t child_ = -1;
};

}  // namespace berth::doctor
