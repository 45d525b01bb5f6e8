// A recipe as text to paste: a shell command for pip, an environment.yml, a Dockerfile. Reasons
// stand in it as comments; nothing else is beside what its reader takes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/package_index.hpp"
#include "doctor/facts/python.hpp"
#include "doctor/install.hpp"
#include "doctor/recipe.hpp"

namespace berth::doctor {

enum class RecipeFormat : unsigned char { kPip, kConda, kDockerfile };
/// "pip", "conda", "dockerfile".
[[nodiscard]] std::optional<RecipeFormat> recipe_format_of(std::string_view word);

struct RecipeOrder {
  Recipe recipe;
  Framework framework = Framework::kTorch;
  std::string python;                // "3.11"; "" whichever it is
  std::string image;                 // for a Dockerfile
  std::vector<std::string> reasons;  // become comments
  PackageIndex index;                // of the program that will install
  IndexChoice choice;
  CondaChannels channels;
  PythonFacts target;  // pip's: whose environment
};
[[nodiscard]] std::string recipe_text(RecipeFormat format, const RecipeOrder& order);

}  // namespace berth::doctor
