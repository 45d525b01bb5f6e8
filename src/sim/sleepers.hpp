// Real processes that stand for the users of simulated GPUs: a pid, a command, an owner, an age, as
// any tool looks them up. They end with the simulation, also when that is killed.
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

  /// Starts one that shows `command`; `program` is the file to run. Fails with kUnavailable
  /// (E0613).
  [[nodiscard]] Result<pid_t> start(const std::string& program, const std::string& command);
  /// Waits until each shows its own command: before, it shows ours.
  void await_commands();
  /// Whether `pid` is one of them.
  [[nodiscard]] bool has(pid_t pid) const;
  /// It has ended and was waited for.
  void forget(pid_t pid);
  /// Ends them all and waits for them.
  void stop();

 private:
  std::vector<pid_t> pids_;
  Descriptor held_, read_;      // a pipe: they end when the end that we hold closes
  Descriptor ready_, not_yet_;  // a pipe that each closes as it becomes its command
};

}  // namespace berth::sim
