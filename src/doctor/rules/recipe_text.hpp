// A recipe as text: a shell command for pip, or a file for conda, Docker, development containers,
// or a Python project. Comments in the text give the reasons; all other text is input for the tool.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/package_index.hpp"
#include "doctor/facts/python.hpp"
#include "doctor/knowledge/recipe.hpp"
#include "doctor/rules/install.hpp"

namespace berth::doctor {

enum class RecipeFormat : unsigned char { kPip, kConda, kDockerfile, kDevcontainer, kPyproject };
/// The format with this name in `berth env`: "pip", "conda" or "dockerfile".
[[nodiscard]] std::optional<RecipeFormat> recipe_format_of(std::string_view word);
/// The format with this name in `berth setup`: "dockerfile", "devcontainer", "environment.yml" or
/// "pyproject".
[[nodiscard]] std::optional<RecipeFormat> setup_format_of(std::string_view word);

struct RecipeOrder {
  Recipe recipe;
  Framework framework = Framework::kTorch;
  std::string python;                // the Python version: "3.11"; "" for any
  std::string image;                 // the base image, for a Dockerfile
  std::vector<std::string> reasons;  // reasons for the choices; written as comments
  PackageIndex index;                // settings of the program that will install the packages
  IndexChoice choice;
  CondaChannels channels;
  PythonFacts target;  // for pip: the environment in which to install
};
[[nodiscard]] std::string recipe_text(RecipeFormat format, const RecipeOrder& order);
/// The text for frameworks that are installed together. Python, image, indices and channels are
/// those of the first framework.
[[nodiscard]] std::string recipe_text(RecipeFormat format, const std::vector<RecipeOrder>& orders);

}  // namespace berth::doctor
