// A recipe as text to paste: a shell command for pip, or a file for conda, Docker, an editor with
// development containers, or a Python project. Its comments give the reasons; everything else is
// input for the tool.
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
/// Formats of `berth env`: "pip", "conda", "dockerfile".
[[nodiscard]] std::optional<RecipeFormat> recipe_format_of(std::string_view word);
/// Formats of `berth setup`: "dockerfile", "devcontainer", "environment.yml", "pyproject".
[[nodiscard]] std::optional<RecipeFormat> setup_format_of(std::string_view word);

struct RecipeOrder {
  Recipe recipe;
  Framework framework = Framework::kTorch;
  std::string python;                // "3.11"; "" any
  std::string image;                 // for a Dockerfile
  std::vector<std::string> reasons;  // become comments
  PackageIndex index;                // index of the program that will install the packages
  IndexChoice choice;
  CondaChannels channels;
  PythonFacts target;  // for pip: the environment to install into
};
[[nodiscard]] std::string recipe_text(RecipeFormat format, const RecipeOrder& order);
/// One text for several frameworks that are installed together. They share the Python, image,
/// indices and channels of the first one.
[[nodiscard]] std::string recipe_text(RecipeFormat format, const std::vector<RecipeOrder>& orders);

}  // namespace berth::doctor
