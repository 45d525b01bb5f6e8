// Pictures as SVG: small, readable without embedded fonts, well-formed XML.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::output {

inline constexpr int kPictureWidth = 880, kPictureMargin = 24, kPictureLineHeight = 20;
inline constexpr int kPictureColumns = 100;  // how many letters of 13 px fit across the picture
inline constexpr std::string_view kPictureBest = "#1a7f37", kPictureOther = "#6e87a8",
                                  kPictureInk = "#1f2328", kPicturePale = "#656d76";

/// A text element. `attributes` begins with a space. The words may be untrusted.
[[nodiscard]] std::string svg_text(double x, double y, std::string_view words,
                                   std::string_view attributes = {});
/// The document with a title and a subtitle below it. The body begins at y = 84.
[[nodiscard]] std::string svg_document(int height, std::string_view title,
                                       std::string_view subtitle, std::string_view body);

/// A bar with its label on the left and its figure on the right.
struct Bar {
  std::string label, figure;
  double length = 0;  // 0: no bar; then `figure` may say why there is none
};
struct BarGroup {
  std::string title;  // includes the unit of the figures
  std::vector<Bar> bars;
};
/// A picture with groups of bars. Each group has its own scale. `notes` are sentences below the
/// bars.
[[nodiscard]] std::string bars_svg(std::string_view title, std::string_view subtitle,
                                   const std::vector<BarGroup>& groups,
                                   const std::vector<std::string>& notes);

/// A straight line: the cost as a function of x.
struct CostLine {
  std::string name;
  double start = 0, per_x = 0;
  std::optional<double> meets_at{};  // the x at which this line begins to be above the first line
};
/// A chart of lines from x = 0 to `most_x`. The first line is compared with the others.
[[nodiscard]] std::string cost_lines_svg(std::string_view title, std::string_view subtitle,
                                         std::string_view x_title, double most_x,
                                         const std::vector<CostLine>& lines,
                                         const std::vector<std::string>& notes);

}  // namespace berth::output
