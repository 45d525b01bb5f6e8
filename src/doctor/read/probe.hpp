// Runs one kernel with each GPU framework of the target (--deep), using the target's interpreter.
// Each runs in its own process and session, which is killed with all its children.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "doctor/read/collect.hpp"

namespace berth::doctor {

struct ProbeOptions {
  std::chrono::milliseconds deadline{14'000};  // total; the last of 15 seconds is for killing
  std::chrono::milliseconds turn{6'000};       // for one, while others wait for the GPU
  /// Called once, after a second, with the pending frameworks: "torch, cupy".
  std::function<void(const std::string&)> on_slow;
};

/// The frameworks that `import` would find, judging by files.
[[nodiscard]] std::vector<std::string> frameworks_of(const Tree& tree, const PythonFacts& python);

/// The frameworks are imported in parallel and use the GPU one at a time (a GPU in exclusive mode
/// accepts one process). Nothing is run with a PyTorch without CUDA.
[[nodiscard]] ProbeFacts probe_target(const Sources& sources, const ProbeOptions& options);

/// Interprets a framework's output lines (from python_probe.py). `status` is from wait(); -1: we
/// killed it. `noise`: the end of its stderr. Pure.
[[nodiscard]] ProbeAnswer answer_from(const std::string& framework, std::string_view lines,
                                      int status, bool had_turn, std::string_view noise);

}  // namespace berth::doctor
