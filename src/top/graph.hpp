// Draws values as rows of braille dots (2 × 4 per character), or in ASCII. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace berth::top {

/// Draws `rows` lines of `columns` characters, with the newest value on the right. Values are
/// percentages. An unknown value leaves its place empty.
[[nodiscard]] std::vector<std::string> draw_graph(const std::vector<std::optional<double>>& values,
                                                  int columns, int rows, bool utf8);

/// Draws a bar of `columns` characters, such as "▇▇▇▁▁▁▁▁". If the value is unknown, the bar is
/// blank.
[[nodiscard]] std::string draw_bar(std::optional<double> percent, int columns, bool utf8);

}  // namespace berth::top
