// Asks each GPU framework of the target to run one kernel (--deep), in the target's own
// interpreter: a process and a session for each, killed with all that it started.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "doctor/collect.hpp"

namespace berth::doctor {

struct ProbeOptions {
  std::chrono::milliseconds deadline{14'000};  // in all; a second of the 15 is for ending it
  std::chrono::milliseconds turn{6'000};       // of one, while others wait for the GPU
  /// Called once, after a second, with what is still awaited: "torch, cupy".
  std::function<void(const std::string&)> on_slow;
};

/// Those that `import` would find, by their files.
[[nodiscard]] std::vector<std::string> frameworks_of(const Tree& tree, const PythonFacts& python);

/// The frameworks import at the same time and use the GPU one after another (a GPU in exclusive
/// mode takes one process). Of a PyTorch without CUDA nothing is run.
[[nodiscard]] ProbeFacts probe_target(const Sources& sources, const ProbeOptions& options);

/// What a framework's lines (as python_probe.py writes them) come to; `status` as wait() gives it,
/// -1: it was killed by us. `noise`: the end of what it wrote to stderr. Pure.
[[nodiscard]] ProbeAnswer answer_from(const std::string& framework, std::string_view lines,
                                      int status, bool had_turn, std::string_view noise);

}  // namespace berth::doctor
