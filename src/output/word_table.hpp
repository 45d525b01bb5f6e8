// Stable identifiers and their text for people.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace berth::output {

struct Word {
  std::string_view id;
  const char* says;  // msgid
};

/// nullptr if the table has no such identifier.
template <std::size_t N>
const Word* find(const std::array<Word, N>& words, std::string_view id) {
  const auto found =
      std::find_if(words.begin(), words.end(), [&](const Word& word) { return word.id == id; });
  return found == words.end() ? nullptr : &*found;
}

}  // namespace berth::output
