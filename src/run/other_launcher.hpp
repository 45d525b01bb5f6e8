// Detects another launcher inside the command: torchrun, accelerate launch, deepspeed. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace berth::run {

struct OtherLauncher {
  std::string name;  // "torchrun", "accelerate launch", "deepspeed"
  // options of the launcher that are not needed with Berth, as given
  std::vector<std::string> needless;
  std::vector<std::string> instead;  // an equivalent `berth run …` command; empty: there is none
};

/// Returns nullopt if the command is not one of these launchers.
[[nodiscard]] std::optional<OtherLauncher> other_launcher(const std::vector<std::string>& command);
/// A sentence for users: which options are not needed, and what to run instead.
[[nodiscard]] std::string needless_sentence(const OtherLauncher& launcher);

}  // namespace berth::run
