// That nothing stays: processes of a simulation are known by BERTH_SIM_DIR in their environment,
// wherever they went.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/descriptor.hpp"
#include "sim/folder.hpp"

namespace berth::sim {

/// Ends every process that carries BERTH_SIM_DIR=`folder`, but not this one: asks first where
/// `politely`, and insists after a second.
void end_processes_of(const std::string& folder, bool politely);

/// A process of its own that ends the simulation's processes and removes its folder when its owner
/// was killed.
class Sweeper {
 public:
  /// `folder` outlives it.
  [[nodiscard]] static Result<Sweeper> start(Folder& folder);
  Sweeper(Sweeper&&) = default;
  Sweeper& operator=(Sweeper&&) = delete;
  /// The owner ended well: the sweeper ends without doing anything.
  void dismiss();

 private:
  Sweeper(pid_t pid, Descriptor pipe) : pid_(pid), pipe_(std::move(pipe)) {}
  pid_t pid_;
  Descriptor pipe_;
};

}  // namespace berth::sim
