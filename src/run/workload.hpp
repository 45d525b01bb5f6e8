// The workload: the user's command in a process that differs from one started directly only in its
// parent, its environment, its processors and a parent-death signal.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "run/launch.hpp"

namespace berth::run {

/// What the child says before it turns into the command; nothing said and the pipe closed: it did.
struct StartTrouble {
  /// Without processors of its own a job runs all the same; all else keeps it from running.
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

/// What the child says next; nullopt: the pipe is closed, it says nothing more.
[[nodiscard]] std::optional<StartTrouble> next_trouble(const Descriptor& from);

void say_trouble(int to, StartTrouble::Step step);
/// Pointers into the words, and a nullptr, as exec wants them.
[[nodiscard]] std::vector<char*> pointers(const std::vector<std::string>& words);
/// Keeps this process on these processors; true for none. False with errno.
[[nodiscard]] bool pin(const std::vector<int>& cpus);
void ignore_signals(std::uint64_t mask);

/// To be called in a fresh child of `keeper`. Waits for the word from `go`: it must not run before
/// the keeper has left its group, whose signals would hit the keeper as well. Reports to `trouble`
/// (closed by a successful exec).
[[noreturn]] void become_workload(const Launch& launch, const Inherited& inherited, pid_t keeper,
                                  int go, int trouble);

}  // namespace berth::run
