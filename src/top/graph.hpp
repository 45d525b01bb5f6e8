// Draws values as rows of braille dots (2 × 4 per character), or in ASCII. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace berth::top {

/// `rows` lines of `columns` columns, the newest value on the right. Values are percent; an unknown
/// one leaves its column empty.
[[nodiscard]] std::vector<std::string> draw_graph(const std::vector<std::optional<double>>& values,
                                                  int columns, int rows, bool utf8);

/// A bar such as "▇▇▇▁▁▁▁▁" with `columns` columns; blanks for an unknown value.
[[nodiscard]] std::string draw_bar(std::optional<double> percent, int columns, bool utf8);

}  // namespace berth::top
