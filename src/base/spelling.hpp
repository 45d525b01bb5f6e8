// "Did you mean": the known word that is most similar to an unknown one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace berth {

/// The number of edits between two words. Insertion, deletion, replacement, and swapping neighbours
/// cost 1 each.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);
/// The known word with the smallest edit distance to `word`; "" if no known word is similar.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace berth
