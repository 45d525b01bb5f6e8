// Runs a small computation with each framework in an environment, and reports the results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/verb.hpp"
#include "doctor/knowledge/builds.hpp"

namespace berth::cli {

struct TriedFramework {
  doctor::Framework framework = doctor::Framework::kTorch;
  bool on_cpu = false;  // the user requested a run on the CPU
  std::string release;  // the installed release; "" if it is unknown
};

struct TrialResult {
  doctor::Framework framework = doctor::Framework::kTorch;
  std::string state;  // one of "ran", "ran_on_cpu", "failed"
  std::string version, says, hint;
  std::optional<std::size_t> devices;
};

/// Runs each framework with the interpreter `python` of the environment in `folder`.
[[nodiscard]] std::vector<TrialResult> try_frameworks(const Context& context,
                                                      const std::string& python,
                                                      const std::string& folder,
                                                      const std::vector<TriedFramework>& tried);

/// The frameworks in the environment. A framework that has no usable GPU on this machine is marked
/// to run on the CPU.
[[nodiscard]] std::vector<TriedFramework> frameworks_in(const std::string& python);

}  // namespace berth::cli
