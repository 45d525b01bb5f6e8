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
/// Adds the text to the line, and cuts it off at this width.
void put(Line& line, int width, output::Style style, const std::string& text);
/// Returns the text for a column of this width, cut off or padded, followed by a blank.
[[nodiscard]] std::string column(std::string_view text, int columns, bool to_the_right);
/// Returns the colour in which a utilization is shown.
[[nodiscard]] output::Style style_of_use(std::optional<double> percent);

}  // namespace berth::top
