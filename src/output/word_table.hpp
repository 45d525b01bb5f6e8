// Tables that assign texts for people to stable identifiers.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace berth::output {

struct Word {
  std::string_view id;
  const char* says;  // msgid
};

/// The row with this identifier; nullptr if the table has none.
template <std::size_t N>
const Word* find(const std::array<Word, N>& words, std::string_view id) {
  const auto found =
      std::find_if(words.begin(), words.end(), [&](const Word& word) { return word.id == id; });
  return found == words.end() ? nullptr : &*found;
}

}  // namespace berth::output
