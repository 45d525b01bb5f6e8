// Commands that install packages into the target's environment, from the configured package index.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/package_index.hpp"
#include "doctor/facts/python.hpp"
#include "doctor/knowledge/recipe.hpp"

namespace berth::doctor {

inline constexpr const char* kTorchIndex = "https://download.pytorch.org/whl";

/// "… -m pip install WORDS" for the target's interpreter. Uses uv if the environment was created
/// with it, and a new venv if a distribution manages the interpreter. `words` are quoted for a
/// shell if necessary; `shell_words` are appended unchanged.
[[nodiscard]] std::string install_command(const PythonFacts& python,
                                          const std::vector<std::string>& words,
                                          const std::string& shell_words = "");
/// "… -m pip uninstall -y WORDS", or the same with uv.
[[nodiscard]] std::string uninstall_command(const PythonFacts& python,
                                            const std::vector<std::string>& words);

/// The package index from which to install a build.
struct IndexChoice {
  /// The address for the command. If it is "", pip or uv uses the index from its own configuration.
  std::string url;
  bool is_unknown = false;  // the path on a mirror is unknown, so `url` contains a placeholder
};
/// The index from which to install a build. PyTorch's own index is used only if PyPI lacks the
/// build and no mirror is configured. `torch_index` is the user's mirror of kTorchIndex; "" if
/// there is none.
[[nodiscard]] IndexChoice index_of(const Build& build, const PackageIndex& configured,
                                   const std::string& torch_index = "");

/// "--index-url …" as shell words. Returns "" for the index that pip or uv is already configured to
/// use.
[[nodiscard]] std::string option_of(const IndexChoice& index);

/// Limits `wish` to builds that the configured mirror has.
void keep_to(const PackageIndex& configured, Wish& wish);

/// The recipe's packages as shell words, with their index: "'torch==2.14.*' --index-url …".
[[nodiscard]] std::string shell_words(const Recipe& recipe, const IndexChoice& index);

}  // namespace berth::doctor
