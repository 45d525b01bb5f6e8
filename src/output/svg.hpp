// Pictures as SVG: small, well-formed XML, and readable without embedded fonts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::output {

inline constexpr int kPictureWidth = 880, kPictureMargin = 24, kPictureLineHeight = 20;
// how many letters of 13 pixels fit into one line of the picture
inline constexpr int kPictureColumns = 100;
inline constexpr std::string_view kPictureBest = "#1a7f37", kPictureOther = "#6e87a8",
                                  kPictureInk = "#1f2328", kPicturePale = "#656d76";

/// A text element. `attributes` must begin with a space. `words` may be untrusted.
[[nodiscard]] std::string svg_text(double x, double y, std::string_view words,
                                   std::string_view attributes = {});
/// An SVG document with a title and a subtitle. The body may begin at y = 84.
[[nodiscard]] std::string svg_document(int height, std::string_view title,
                                       std::string_view subtitle, std::string_view body);

/// A bar, with a label to its left and a figure to its right.
struct Bar {
  std::string label, figure;
  double length = 0;  // 0 means that there is no bar; `figure` may tell why
};
struct BarGroup {
  std::string title;  // title of the group, with the unit of the figures
  std::vector<Bar> bars;
};
/// A picture with groups of bars, each group with its own scale. `notes` are sentences below the
/// bars.
[[nodiscard]] std::string bars_svg(std::string_view title, std::string_view subtitle,
                                   const std::vector<BarGroup>& groups,
                                   const std::vector<std::string>& notes);

/// A straight line in a chart: `start` plus `per_x` times x.
struct CostLine {
  std::string name;
  double start = 0, per_x = 0;
  std::optional<double> meets_at{};  // the x from which on this line is above the first line
};
/// A chart of lines from x = 0 to `most_x`. Each line is compared with the first one.
[[nodiscard]] std::string cost_lines_svg(std::string_view title, std::string_view subtitle,
                                         std::string_view x_title, double most_x,
                                         const std::vector<CostLine>& lines,
                                         const std::vector<std::string>& notes);

}  // namespace berth::output
