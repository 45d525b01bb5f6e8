// Runs one computation with each framework of an environment, and says how that went.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/verb.hpp"
#include "doctor/knowledge/builds.hpp"

namespace berth::cli {

struct TriedFramework {
  doctor::Framework framework = doctor::Framework::kTorch;
  bool on_cpu = false;  // a run on the CPU is what was asked for
  std::string release;  // as installed; "" unknown
};

struct TrialResult {
  doctor::Framework framework = doctor::Framework::kTorch;
  std::string state;  // "ran", "ran_on_cpu", "failed"
  std::string version, says, hint;
  std::optional<std::size_t> devices;
};

/// With the interpreter `python` of the environment in `folder`.
[[nodiscard]] std::vector<TrialResult> try_frameworks(const Context& context,
                                                      const std::string& python,
                                                      const std::string& folder,
                                                      const std::vector<TriedFramework>& tried);

/// The frameworks in the environment. They are tried on the CPU if this machine has no GPU for
/// them.
[[nodiscard]] std::vector<TriedFramework> frameworks_in(const std::string& python);

}  // namespace berth::cli
