// Decides which build `berth env` prints and `berth setup` installs.
#pragma once

#include <string>

#include "cli/verb.hpp"
#include "doctor/facts/facts.hpp"
#include "doctor/rules/recipe_machine.hpp"
#include "doctor/rules/recipe_text.hpp"

namespace berth::cli {

/// How the hints in errors name the options of the calling verb.
struct RecipeAsker {
  // "berth setup torch --uv": the user's command without the options that describe the machine
  std::string command;
  // the same without the choice of a Python, to be followed by a version: "… --python "
  std::string other_python;
  bool (*has_python)(const std::string& version) = nullptr;  // on this machine; nullptr: not needed
};

struct RecipePlan {
  doctor::RecipeMachine machine;
  doctor::RecipeOrder order;
};

/// Reads --driver, --gpu, --compute-capability, --python-version, --torch-index, --cpu and --gpus.
/// `release`: a preferred release, "2.7", but not guaranteed; "": the newest. `cuda_major`: only
/// builds of that CUDA; 0: any. Fails with E0831 to E0836.
[[nodiscard]] Result<RecipePlan> plan_recipe(const Context& context, const doctor::Facts& facts,
                                             doctor::Framework framework,
                                             doctor::RecipeFormat format, const RecipeAsker& asker,
                                             const std::string& release = "", int cuda_major = 0);

}  // namespace berth::cli
