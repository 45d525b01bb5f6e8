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

/// What a job's variables were set to by us, in one of its own: what it queues in its turn does not
/// take them for its user's choice.
inline constexpr const char* kSetByBerth = "BERTH_SET";

/// Makes the caller's variables the job's.
void set_variables(const model::Environment& environment,
                   std::map<std::string, std::string>& variables);
/// As its user has them: without those that still are as we set them for the job around us.
[[nodiscard]] std::map<std::string, std::string> without_berths(
    std::map<std::string, std::string> variables);

/// `user`: the variables of the caller's environment that matter here (all of it may be given).
[[nodiscard]] model::Environment environment_for(const model::Placement& placement,
                                                 const model::Snapshot& snapshot,
                                                 const std::map<std::string, std::string>& user,
                                                 const EnvironmentOptions& options);

}  // namespace berth::policy
