// A running process as the target: its files (as its mount namespace shows them), variables,
// identity and limits. Read from /proc, which does not affect the process.
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
  bool same_files = false;  // the process has the same root folder and mounts as this one
  std::string root;         // "/proc/4711/root", which can be the root of a Tree
  /// Path in that root under which the process was started. In a virtual environment, this is the
  /// environment's Python and not the link's target. "" if unknown.
  std::string program;
  std::vector<std::string> silent;  // mounts below that root that do not respond
};

/// Fails with kNotFound (E0805: no such process). The facts of another user's process are
/// unreadable.
[[nodiscard]] Result<OtherProcess> other_process(std::int64_t pid,
                                                 const std::string& proc = "/proc");

// Parses files of /proc/PID. The input is untrusted.
[[nodiscard]] Fact<Identity> identity_from_status(std::string_view status);
/// Reads the soft limits, the first of the two numbers: "Max locked memory   8388608   8388608
/// bytes".
void limits_from(std::string_view limits, ProcessFacts& facts);

}  // namespace berth::doctor
