// Quotes one word of a shell command, so that the shell does not interpret a file name or a value.
#pragma once

#include <string>
#include <string_view>

namespace berth {

/// Quotes the text only if sh, bash, zsh or dash would otherwise interpret it.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace berth
