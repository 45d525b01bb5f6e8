// A line of the live view.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "output/terminal.hpp"

namespace berth::top {

struct Span {
  output::Style style = output::Style::kPlain;
  std::string text;
  bool operator==(const Span&) const = default;
};
using Line = std::vector<Span>;

[[nodiscard]] int width_of(const Line& line);
/// Adds as much of the text as fits into a line of this width.
void put(Line& line, int width, output::Style style, const std::string& text);
/// The text, clipped and padded to the width of a column, followed by a blank.
[[nodiscard]] std::string column(std::string_view text, int columns, bool to_the_right);
/// The colour of a utilization.
[[nodiscard]] output::Style style_of_use(std::optional<double> percent);

}  // namespace berth::top
