// environment_for(): what a job will see, as plain values; `run` applies it, `berth env` and
// --dry-run print it. Pure.
#pragma once

#include <map>
#include <string>

#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

struct EnvironmentOptions {
  bool override_user = false;  // --override: replace values the user set
  bool quiet = false;          // --quiet: TF_CPP_MIN_LOG_LEVEL=1
};

/// `user`: the variables of the caller's environment that matter here (all of it may be given).
[[nodiscard]] model::Environment environment_for(const model::Placement& placement,
                                                 const model::Snapshot& snapshot,
                                                 const std::map<std::string, std::string>& user,
                                                 const EnvironmentOptions& options);

}  // namespace berth::policy
