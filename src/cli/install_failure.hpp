// Why pip, uv or conda failed: a sentence and the next step, from their own last lines. Pure.
#pragma once

#include <string>
#include <string_view>

namespace berth::cli {

struct InstallFailure {
  std::string says;  // "": not recognised
  std::string hint;
};
/// `folder`: where the environment was to be made.
[[nodiscard]] InstallFailure install_failure(std::string_view last_words,
                                             const std::string& folder);

}  // namespace berth::cli
