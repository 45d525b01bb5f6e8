// Decides which builds `berth setup` installs: one per framework, all for one environment.
#pragma once

#include <string>
#include <vector>

#include "cli/recipe_plan.hpp"
#include "cli/setup_request.hpp"

namespace berth::cli {

struct SetupPart {
  AskedFramework asked;
  RecipePlan plan;
  std::vector<std::string> packages;  // packages, with an exact version if the user requested one
};

struct SetupPlan {
  std::vector<SetupPart> parts;
  SetupEnvironment environment;
  std::vector<std::string> reasons;
  std::vector<std::string> notes;
};

/// Fails with E0831 to E0836, E0843, E0844, with E0847 if two frameworks cannot be in one
/// environment, and with E0967 if the environment to upgrade has no pip.
[[nodiscard]] Result<SetupPlan> plan_setup(const Context& context, const SetupRequest& request,
                                           const doctor::Facts& facts);

/// The command as the user would type it in a shell, without passwords in addresses.
[[nodiscard]] std::string shown_command(const std::vector<std::string>& words);

}  // namespace berth::cli
