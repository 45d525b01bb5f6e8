// A running process as the target: its files (in its own mount namespace), variables, identity and
// limits. Read from /proc, which does not affect the process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "doctor/facts/process.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

struct OtherProcess {
  ProcessFacts facts;
  bool same_files = false;  // the process sees the same files as this one
  std::string root;         // "/proc/4711/root", which can be the root of a Tree
  /// The name under which the process was started, in that tree: for a virtual environment, its
  /// Python and not the link's target. "" if unknown.
  std::string program;
  std::vector<std::string> silent;  // mounts in that tree that do not answer
};

/// Fails with kNotFound (E0805: no such process). If the process belongs to another user, its data
/// is unreadable.
[[nodiscard]] Result<OtherProcess> other_process(std::int64_t pid,
                                                 const std::string& proc = "/proc");

// Parses files of /proc/PID. Pure; the input is untrusted.
[[nodiscard]] Fact<Identity> identity_from_status(std::string_view status);
/// Reads the soft limits: "Max locked memory   8388608   8388608   bytes".
void limits_from(std::string_view limits, ProcessFacts& facts);

}  // namespace berth::doctor
