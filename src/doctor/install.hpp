// The command that installs packages where the target's are, as it is managed, from where it is
// configured to take them.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/package_index.hpp"
#include "doctor/facts/python.hpp"
#include "doctor/recipe.hpp"

namespace berth::doctor {

inline constexpr const char* kTorchIndex = "https://download.pytorch.org/whl";

/// "… -m pip install WORDS", for the target's interpreter, as it is managed: pip, uv, or a fresh
/// venv where a distribution manages it. Each word is quoted where a shell would see more in it;
/// `shell_words` follow as they are.
[[nodiscard]] std::string install_command(const PythonFacts& python,
                                          const std::vector<std::string>& words,
                                          const std::string& shell_words = "");
/// "… -m pip uninstall WORDS", without a question.
[[nodiscard]] std::string uninstall_command(const PythonFacts& python,
                                            const std::vector<std::string>& words);

/// Where a build is taken from.
struct IndexChoice {
  std::string url;          // in the command; "" as pip or uv is configured
  bool is_unknown = false;  // behind a mirror nobody knows: `url` says so to the shell
};
/// PyTorch's own index only where PyPI has no such build and no mirror is configured.
/// `torch_index`: the mirror of kTorchIndex, where somebody named it; "" nobody did.
[[nodiscard]] IndexChoice index_of(const Build& build, const PackageIndex& configured,
                                   const std::string& torch_index = "");

/// "--index-url …", as words of a shell; "" as pip or uv is configured.
[[nodiscard]] std::string option_of(const IndexChoice& index);

/// What keeps a recipe to the builds that a mirror has.
void keep_to(const PackageIndex& configured, Wish& wish);

/// The recipe's packages as words for a shell, with their index: "'torch==2.14.*' --index-url …".
[[nodiscard]] std::string shell_words(const Recipe& recipe, const IndexChoice& index);

}  // namespace berth::doctor
