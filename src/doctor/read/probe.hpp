// Runs one kernel with each GPU framework of the target (--deep), using the target's interpreter.
// Each framework runs in its own process and session, which is killed afterwards with all its
// children.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "doctor/read/collect.hpp"

namespace berth::doctor {

struct ProbeOptions {
  std::chrono::milliseconds deadline{
      14'000};  // in total; the last of the 15 seconds is needed to kill processes
  std::chrono::milliseconds turn{6'000};  // time for one framework, while others wait for the GPU
  /// Called once, after a second, with the names of the frameworks that are still running: "torch,
  /// cupy".
  std::function<void(const std::string&)> on_slow;
};

/// The frameworks that `import` would find, according to files.
[[nodiscard]] std::vector<std::string> frameworks_of(const Tree& tree, const PythonFacts& python);

/// The frameworks are imported in parallel, but use the GPU one after another, because a GPU in
/// exclusive mode accepts only one process. A PyTorch without CUDA is not run.
[[nodiscard]] ProbeFacts probe_target(const Sources& sources, const ProbeOptions& options);

/// Interprets a framework's output lines (from python_probe.py). `status` is from wait(); -1 if the
/// process was killed. `noise`: the end of its stderr. Pure.
[[nodiscard]] ProbeAnswer answer_from(const std::string& framework, std::string_view lines,
                                      int status, bool had_turn, std::string_view noise);

}  // namespace berth::doctor
