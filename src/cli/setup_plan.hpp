// Decides which builds `berth setup` installs: one per framework, all in one environment.
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

/// Plans the installation. Fails with E0831 to E0836, E0843, E0844, E0847 (two frameworks do not
/// work in one environment), or E0967 (the environment to upgrade has no pip).
[[nodiscard]] Result<SetupPlan> plan_setup(const Context& context, const SetupRequest& request,
                                           const doctor::Facts& facts);

/// The command as a user would type it in a shell. Passwords in URLs are left out.
[[nodiscard]] std::string shown_command(const std::vector<std::string>& words);

}  // namespace berth::cli
