// environment_for(): the values of the variables that a job gets. `berth run` sets them; `berth
// env` and --dry-run print them. Pure.
#pragma once

#include <map>
#include <string>

#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

struct EnvironmentOptions {
  bool override_user = false;  // --override: replace values that the user has set
  bool quiet = false;          // --quiet: TF_CPP_MIN_LOG_LEVEL=1
};

/// BERTH_SET lists the variables that Berth set, so that a job queued from inside this job does not
/// treat them as the user's choice.
inline constexpr const char* kSetByBerth = "BERTH_SET";

/// Applies the settings to the caller's variables.
void set_variables(const model::Environment& environment,
                   std::map<std::string, std::string>& variables);
/// Returns the user's own variables. Leaves out the variables that Berth set for the surrounding
/// job and that still have this value.
[[nodiscard]] std::map<std::string, std::string> without_berths(
    std::map<std::string, std::string> variables);

/// Returns the variables of a job. `user` is the caller's environment, or the part of it that
/// matters.
[[nodiscard]] model::Environment environment_for(const model::Placement& placement,
                                                 const model::Snapshot& snapshot,
                                                 const std::map<std::string, std::string>& user,
                                                 const EnvironmentOptions& options);

}  // namespace berth::policy
