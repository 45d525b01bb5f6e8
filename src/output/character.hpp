// Splits a text into the characters that a terminal shows.
#pragma once

#include <string_view>

namespace berth::output {

struct Character {
  std::string_view bytes;
  char32_t code = 0;
  // how many columns it takes: 0 for a combining character, 2 for a wide one
  int columns = 1;
};
/// Removes the first character of `text` and returns it. `text` must be valid UTF-8 and not empty.
[[nodiscard]] Character take_character(std::string_view& text);

}  // namespace berth::output
