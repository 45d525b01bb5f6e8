// Runs one kernel with each GPU framework of the target (--deep), in the target's interpreter. Each
// framework has its own process and session. At the end, all processes of the session are killed.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "doctor/read/collect.hpp"

namespace berth::doctor {

struct ProbeOptions {
  /// Time for all frameworks together. The whole probe may take 15 seconds: 14 for the frameworks,
  /// and 1 to kill processes.
  std::chrono::milliseconds deadline{14'000};
  // longest time that one framework may use the GPU while others wait
  std::chrono::milliseconds turn{6'000};
  /// Called once, after a second, with the names of the frameworks that still run: "torch, cupy".
  std::function<void(const std::string&)> on_slow;
};

/// The frameworks that Python could import, according to the files in sys.path.
[[nodiscard]] std::vector<std::string> frameworks_of(const Tree& tree, const PythonFacts& python);

/// All frameworks are imported in parallel, but use the GPU one after another, because a GPU in
/// exclusive mode accepts only one process. A PyTorch without CUDA is not started.
[[nodiscard]] ProbeFacts probe_target(const Sources& sources, const ProbeOptions& options);

/// Interprets the output of python_probe.py for a framework. `status` is from wait(), or -1 if the
/// process was killed. `noise` is the end of the process's stderr.
[[nodiscard]] ProbeAnswer answer_from(const std::string& framework, std::string_view lines,
                                      int status, bool had_turn, std::string_view noise);

}  // namespace berth::doctor
