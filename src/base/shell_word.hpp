// Quotes one word of a shell command, so that the shell does not interpret a file name or a value.
#pragma once

#include <string>
#include <string_view>

namespace berth {

/// Adds quotes only if sh, bash, zsh or dash would otherwise interpret the text.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace berth
