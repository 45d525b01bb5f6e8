// Ends all processes of a simulation. They have BERTH_SIM_DIR in their environment, and need not be
// children of `berth sim`.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/descriptor.hpp"
#include "sim/folder.hpp"

namespace berth::sim {

/// Ends every process with BERTH_SIM_DIR=`folder`, except the caller. `politely`: sends SIGTERM
/// first, SIGKILL after a second.
void end_processes_of(const std::string& folder, bool politely);

/// A separate process that ends the simulation's processes and removes the folder if the
/// simulation's owner is killed.
class Sweeper {
 public:
  /// Starts the sweeper. `folder` must exist longer than the sweeper.
  [[nodiscard]] static Result<Sweeper> start(Folder& folder);
  Sweeper(Sweeper&&) = default;
  Sweeper& operator=(Sweeper&&) = delete;
  /// Call when the owner ends normally: the sweeper exits and does nothing.
  void dismiss();

 private:
  Sweeper(pid_t pid, Descriptor pipe) : pid_(pid), pipe_(std::move(pipe)) {}
  pid_t pid_;
  Descriptor pipe_;
};

}  // namespace berth::sim
