// Starts real processes that represent the processes on simulated GPUs, because tools read their
// pid, command, owner and age from the kernel. They end with the simulation, even if it is killed.
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
  /// Waits until each process shows its own command line. Directly after the fork, it still shows
  /// that of `berth sim`.
  void await_commands();
  /// Whether `pid` is one of these processes.
  [[nodiscard]] bool has(pid_t pid) const;
  /// Call this after waitpid() has reaped the process.
  void forget(pid_t pid);
  /// Ends all processes and waits for them.
  void stop();

 private:
  std::vector<pid_t> pids_;
  Descriptor held_, read_;      // a pipe: the processes exit when this process closes its end
  Descriptor ready_, not_yet_;  // a pipe: each process closes its end when it shows its command
};

}  // namespace berth::sim
