// A running process as the target: its files (in its own mount namespace), variables, identity and
// limits, read from /proc without touching it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {

struct OtherProcess {
  ProcessFacts facts;
  bool same_files = false;  // it sees the files that we see
  std::string root;         // "/proc/4711/root": a Tree's folder
  /// By the name that it was started as, in that tree: a virtual environment's Python, and not the
  /// one behind its link; "" where it cannot be told.
  std::string program;
  std::vector<std::string> silent;  // mounts that do not answer, in that tree
};

/// Fails with kNotFound (E0805: no such process). What belongs to another user is unreadable.
[[nodiscard]] Result<OtherProcess> other_process(std::int64_t pid,
                                                 const std::string& proc = "/proc");

// The texts of /proc/PID, parsed. Pure; written for hostile input.
[[nodiscard]] Fact<Identity> identity_from_status(std::string_view status);
/// "Max locked memory   8388608   8388608   bytes": the soft limits.
void limits_from(std::string_view limits, ProcessFacts& facts);

}  // namespace berth::doctor
