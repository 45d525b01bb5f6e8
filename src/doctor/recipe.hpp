// Recipes: which wheel runs on this driver, GPU and Python, proven by the compatibility data; and
// the command that installs it where the target's packages are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/compatibility.hpp"
#include "doctor/facts/python.hpp"

namespace berth::doctor {

struct TorchWish {
  std::string python;                     // "3.11"; "" any; so are the others
  std::string driver, driver_cuda;        // "535.54.03", "12.2"
  std::vector<std::string> capabilities;  // of all GPUs
  bool aarch64 = false;
  std::string keep;  // the release to stay with, if one of its builds will do
};

struct TorchRecipe {
  std::string release;  // "2.7"
  std::string cuda;     // "12.6"
  bool newest = false;  // of all that the data knows: needs no pin
};

[[nodiscard]] std::optional<TorchRecipe> torch_for(const Compatibility& known,
                                                   const TorchWish& wish);

/// "… -m pip install WORDS", for the target's interpreter, as it is managed: pip, uv, or a fresh
/// venv where a distribution manages it. Each word is quoted where a shell would see more in it.
[[nodiscard]] std::string install_command(const PythonFacts& python,
                                          const std::vector<std::string>& words);
/// "… -m pip uninstall WORDS", without a question.
[[nodiscard]] std::string uninstall_command(const PythonFacts& python,
                                            const std::vector<std::string>& words);
/// install_command() for PyTorch with torchvision and torchaudio where they are installed too.
[[nodiscard]] std::string install_torch_command(const PythonFacts& python,
                                                const TorchRecipe& recipe);

}  // namespace berth::doctor
