// One word of a shell's command line, so that a file's name or a variable's value stays just that.
#pragma once

#include <string>
#include <string_view>

namespace berth {

/// Quoted for sh, bash, zsh and dash where one of them would see more in it than a word.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace berth
