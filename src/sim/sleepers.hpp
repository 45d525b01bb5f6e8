// Starts real processes that play the processes on simulated GPUs. They have the pid, command,
// owner and age that tools read. They end with the simulation, even if it is killed.
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

  /// Starts a process whose command line shows `command`; `program` is the file to execute. Fails
  /// with kUnavailable (E0613).
  [[nodiscard]] Result<pid_t> start(const std::string& program, const std::string& command);
  /// Waits until each process shows its own command. Directly after the fork, it shows the command
  /// of `berth sim`.
  void await_commands();
  /// Whether `pid` is one of these processes.
  [[nodiscard]] bool has(pid_t pid) const;
  /// Call this when the process has ended and was waited for.
  void forget(pid_t pid);
  /// Ends all processes and waits for them.
  void stop();

 private:
  std::vector<pid_t> pids_;
  Descriptor held_, read_;      // a pipe: the processes exit when this process closes its end
  Descriptor ready_, not_yet_;  // a pipe: each process closes its end when it shows its command
};

}  // namespace berth::sim
