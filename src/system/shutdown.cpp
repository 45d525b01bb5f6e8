#include "system/shutdown.hpp"

#include "base/file.hpp"
#include "system/child_run.hpp"

namespace berth::system {

bool is_machine_stopping(std::chrono::seconds at_most) {
  const std::atomic<bool> is_stopped{false};
  const auto answer = run_child({.program = "systemctl",
                                 .words = {"systemctl", "is-system-running"},
                                 .longest = at_most,
                                 .most_bytes = 64},
                                is_stopped);
  return answer.problem == 0 && answer.is_over && trim(answer.output) == "stopping";
}

}  // namespace berth::system
