// The characters of a text in a terminal.
#pragma once

#include <string_view>

namespace berth::output {

struct Character {
  std::string_view bytes;
  char32_t code = 0;
  // Columns in the terminal: 0 for a combining character, 2 for a wide one.
  int columns = 1;
};
/// Removes the first character of `text`, which is not empty and is valid UTF-8.
[[nodiscard]] Character take_character(std::string_view& text);

}  // namespace berth::output
