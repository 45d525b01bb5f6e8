// Another launcher inside the command: torchrun, accelerate launch, deepspeed. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace berth::run {

struct OtherLauncher {
  std::string name;                   // "torchrun", "accelerate launch", "deepspeed"
  std::vector<std::string> needless;  // its options that Berth makes needless, as they were given
  std::vector<std::string> instead;  // the words of `berth run …` that do the same; empty: none do
};

/// nullopt if the command is no such launcher.
[[nodiscard]] std::optional<OtherLauncher> other_launcher(const std::vector<std::string>& command);
/// A sentence for people: which options are needless, and what to run instead.
[[nodiscard]] std::string needless_sentence(const OtherLauncher& launcher);

}  // namespace berth::run
