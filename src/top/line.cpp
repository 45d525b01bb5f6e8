#include "top/line.hpp"

namespace berth::top {

int width_of(const Line& line) {
  int width = 0;
  for (const Span& span : line) width += output::display_width(span.text);
  return width;
}

void put(Line& line, int width, output::Style style, const std::string& text) {
  const int left = width - width_of(line);
  if (left > 0) line.push_back({style, output::clip(text, left)});
}

std::string column(std::string_view text, int columns, bool to_the_right) {
  return output::pad(output::clip(text, columns), columns, to_the_right) + " ";
}

output::Style style_of_use(std::optional<double> percent) {
  if (!percent) return output::Style::kDim;
  return *percent >= 50 ? output::Style::kGreen : output::Style::kPlain;
}

}  // namespace berth::top
