// Quotes one word of a shell command, so that the shell takes special characters in it literally.
#pragma once

#include <string>
#include <string_view>

namespace berth {

/// Quotes the text only if it contains a character that is special in sh, bash, zsh or dash.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace berth
