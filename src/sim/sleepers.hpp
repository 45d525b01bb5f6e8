// Real processes that play the users of simulated GPUs, with the pid, command, owner and age that
// tools look up. They end with the simulation, even if it is killed.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace berth::sim {

class Sleepers {
 public:
  Sleepers() = default;
  ~Sleepers() { stop(); }
  Sleepers(const Sleepers&) = delete;
  Sleepers& operator=(const Sleepers&) = delete;

  /// Starts one that shows `command`; `program` is the file to execute. Fails with kUnavailable
  /// (E0613).
  [[nodiscard]] Result<pid_t> start(const std::string& program, const std::string& command);
  /// Waits until each shows its own command; right after the fork it shows ours.
  void await_commands();
  /// Whether `pid` is one of them.
  [[nodiscard]] bool has(pid_t pid) const;
  /// Call it after the process ended and was waited for.
  void forget(pid_t pid);
  /// Ends them all and waits for them.
  void stop();

 private:
  std::vector<pid_t> pids_;
  Descriptor held_, read_;      // a pipe: they exit when we close our end
  Descriptor ready_, not_yet_;  // a pipe: each closes it when it shows its command
};

}  // namespace berth::sim
