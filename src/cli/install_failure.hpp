// Why pip, uv or conda failed, according to the last lines of their output: a sentence and the next
// step. Pure.
#pragma once

#include <string>
#include <string_view>

namespace berth::cli {

struct InstallFailure {
  std::string says;  // an empty string if the failure was not recognized
  std::string hint;
};
/// `last_words`: the end of the output. `folder`: where the environment was to be created.
[[nodiscard]] InstallFailure install_failure(std::string_view last_words,
                                             const std::string& folder);

}  // namespace berth::cli
