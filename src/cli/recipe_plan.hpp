// Decides which build of a framework `berth env` prints and `berth setup` installs.
#pragma once

#include <string>

#include "cli/verb.hpp"
#include "doctor/facts/facts.hpp"
#include "doctor/rules/recipe_machine.hpp"
#include "doctor/rules/recipe_text.hpp"

namespace berth::cli {

/// Parts of the calling verb's command line, for the hints in errors.
struct RecipeAsker {
  // the user's command without the options that describe the machine, such as "berth setup torch
  // --uv"
  std::string command;
  // `command` without the option that chose a Python. It ends with "--python ", so that a version
  // can be appended.
  std::string other_python;
  // Tells whether this machine has a Python of this version. Null if the verb does not need to
  // know.
  bool (*has_python)(const std::string& version) = nullptr;
};

struct RecipePlan {
  doctor::RecipeMachine machine;
  doctor::RecipeOrder order;
};

/// Reads --driver, --gpu, --compute-capability, --python-version, --torch-index, --cpu and --gpus.
/// `release` is the preferred release, such as "2.7", or "" for the newest; another may be chosen.
/// `cuda_major` allows only builds for this CUDA version; 0 allows all. Fails with E0831 to E0836.
[[nodiscard]] Result<RecipePlan> plan_recipe(const Context& context, const doctor::Facts& facts,
                                             doctor::Framework framework,
                                             doctor::RecipeFormat format, const RecipeAsker& asker,
                                             const std::string& release = "", int cuda_major = 0);

}  // namespace berth::cli
