// The command that installs packages into the target's environment, from the configured index.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/package_index.hpp"
#include "doctor/facts/python.hpp"
#include "doctor/knowledge/recipe.hpp"

namespace berth::doctor {

inline constexpr const char* kTorchIndex = "https://download.pytorch.org/whl";

/// "… -m pip install WORDS" for the target's interpreter: with pip, uv, or a new venv if a
/// distribution manages the interpreter. Words are quoted for a shell if necessary; `shell_words`
/// are appended unchanged.
[[nodiscard]] std::string install_command(const PythonFacts& python,
                                          const std::vector<std::string>& words,
                                          const std::string& shell_words = "");
/// "… -m pip uninstall WORDS" without confirmation.
[[nodiscard]] std::string uninstall_command(const PythonFacts& python,
                                            const std::vector<std::string>& words);

/// The index of a build.
struct IndexChoice {
  std::string url;          // for the command; "": as pip or uv is configured
  bool is_unknown = false;  // an unknown path on a mirror: `url` is a placeholder that says so
};
/// PyTorch's own index is used only if PyPI lacks the build and no mirror is configured.
/// `torch_index`: the user's mirror of kTorchIndex; "" none.
[[nodiscard]] IndexChoice index_of(const Build& build, const PackageIndex& configured,
                                   const std::string& torch_index = "");

/// "--index-url …" as shell words; "": as pip or uv is configured.
[[nodiscard]] std::string option_of(const IndexChoice& index);

/// Limits a recipe to the builds that a mirror has.
void keep_to(const PackageIndex& configured, Wish& wish);

/// The recipe's packages as shell words, with their index: "'torch==2.14.*' --index-url …".
[[nodiscard]] std::string shell_words(const Recipe& recipe, const IndexChoice& index);

}  // namespace berth::doctor
