// The workload: the user's command. Its process differs from one started directly only in parent,
// environment, processors and a parent-death signal.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "run/launch.hpp"

namespace berth::run {

/// A failed step that the child reports before exec. If the pipe closes without a report, exec
/// succeeded.
struct StartTrouble {
  /// If the processors cannot be set, the job runs anyway; every other failure prevents the start.
  enum class Step : std::int32_t {
    kPinning,
    kLimits,
    kGroup,
    kUser,
    kFolder,
    kExec
  } step = Step::kExec;
  std::int32_t error = 0;  // errno
};

/// Reads the next report of the child; nullopt if the pipe has closed.
[[nodiscard]] std::optional<StartTrouble> next_trouble(const Descriptor& from);

void say_trouble(int to, StartTrouble::Step step);
/// Pointers to the words, followed by nullptr, for exec.
[[nodiscard]] std::vector<char*> pointers(const std::vector<std::string>& words);
/// Restricts this process to these processors. Does nothing and returns true if the list is empty.
/// Returns false with errno if it fails.
[[nodiscard]] bool pin(const std::vector<int>& cpus);
void ignore_signals(std::uint64_t mask);

/// Call it in a new child of `keeper`. Waits for a byte from `go`, because the command must not run
/// before the keeper has left its process group. Otherwise the signals of that group would also
/// reach the keeper. Reports failures to `trouble`, which a successful exec closes.
[[noreturn]] void become_workload(const Launch& launch, const Inherited& inherited, pid_t keeper,
                                  int go, int trouble);

}  // namespace berth::run
