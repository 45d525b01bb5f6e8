#include "output/svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/file.hpp"
#include "base/text.hpp"
#include "output/terminal.hpp"

namespace berth::output {
namespace {

constexpr int kTop = 84, kLabel = 250, kBar = 400, kRow = 30;
constexpr int kPlotLeft = 84, kPlotWidth = 560, kPlotHeight = 320;
constexpr std::array<std::string_view, 4> kColours{kPictureBest, "#0969da", "#9a6700", "#8250df"};

/// Escapes text for the content of an XML element.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

std::string line(double x1, double y1, double x2, double y2, std::string_view colour,
                 double width) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
      "stroke-width=\"{}\"/>\n",
      x1, y1, x2, y2, colour, width);
}

std::string notes_from(const std::vector<std::string>& notes, int& y) {
  std::string out;
  for (const std::string& note : notes)
    for (const std::string& part : wrap(note, kPictureColumns)) {
      out += svg_text(kPictureMargin, y, part, fmt::format(" fill=\"{}\"", kPicturePale));
      y += kPictureLineHeight;
    }
  return out;
}

/// The distance between the marks of an axis: 1, 2 or 5 times a power of ten. There are at most 6
/// marks from 0 to `most`.
double step_for(double most) {
  const double power = std::pow(10, std::floor(std::log10(most / 5)));
  for (const double factor : {1, 2, 5, 10})
    if (power * factor * 5 >= most) return power * factor;
  return power * 10;
}

std::string number(double value) {
  std::string out = fmt::format("{:.0f}", value);
  for (auto at = static_cast<std::ptrdiff_t>(out.size()) - 3; at > 0; at -= 3)
    out.insert(static_cast<std::size_t>(at), " ");
  return value < 10 && value != std::floor(value) ? fmt::format("{:.1f}", value) : out;
}

/// The area of a line chart, with its scale, its marks and its lines.
class Plot {
 public:
  Plot(double most_x, double most_y) : most_x_(most_x), most_y_(most_y) {}

  [[nodiscard]] double x(double value) const { return kPlotLeft + kPlotWidth * value / most_x_; }
  [[nodiscard]] double y(double value) const {
    return kTop + kPlotHeight - kPlotHeight * value / most_y_;
  }
  [[nodiscard]] std::string axes(std::string_view x_title) const {
    std::string out;
    const double step_y = step_for(most_y_), step_x = std::max(1.0, step_for(most_x_));
    for (int i = 0; i * step_y <= most_y_; ++i) {
      const double at = y(i * step_y);
      out += line(kPlotLeft, at, kPlotLeft + kPlotWidth, at, "#d0d7de", 1);
      out += svg_text(kPlotLeft - 8, at + 4, number(i * step_y), " text-anchor=\"end\"");
    }
    const double below = kTop + kPlotHeight + 18;
    for (int i = 0; i * step_x <= most_x_; ++i)
      out += svg_text(x(i * step_x), below, number(i * step_x), " text-anchor=\"middle\"");
    out += svg_text(kPlotLeft + kPlotWidth, below + 18, x_title, " text-anchor=\"end\"");
    return out;
  }

 private:
  double most_x_, most_y_;
};

}  // namespace

std::string svg_text(double x, double y, std::string_view words, std::string_view attributes) {
  return fmt::format("<text x=\"{:g}\" y=\"{:g}\"{}>{}</text>\n", x, y, attributes, escaped(words));
}

std::string svg_document(int height, std::string_view title, std::string_view subtitle,
                         std::string_view body) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
             "height=\"{1}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"{2}\">\n"
             "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
             kPictureWidth, height, kPictureInk) +
         svg_text(kPictureMargin, 34, clip(printable(title), 90),
                  " font-size=\"17\" font-weight=\"bold\"") +
         svg_text(kPictureMargin, 58, subtitle, fmt::format(" fill=\"{}\"", kPicturePale)) +
         std::string(body) + "</svg>\n";
}

std::string bars_svg(std::string_view title, std::string_view subtitle,
                     const std::vector<BarGroup>& groups, const std::vector<std::string>& notes) {
  std::string body;
  int y = kTop;
  for (const BarGroup& group : groups) {
    double longest = 0;
    for (const Bar& bar : group.bars) longest = std::max(longest, bar.length);
    body += svg_text(kPictureMargin, y + 8, group.title, " font-weight=\"bold\"");
    y += kPictureLineHeight;
    for (const Bar& bar : group.bars) {
      const double middle = y + kRow / 2.0 + 4;
      body += svg_text(kPictureMargin, middle, clip(printable(bar.label), 36));
      double right = kPictureMargin + kLabel;
      if (bar.length > 0 && longest > 0) {
        const double width = std::max(1.0, kBar * bar.length / longest);
        body += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" rx=\"2\" fill=\"{}\"/>\n",
            right, y + 6, width, kRow - 12, kPictureOther);
        right += width + 10;
      }
      body += svg_text(right, middle, clip(printable(bar.figure), 70));
      y += kRow;
    }
    y += kPictureLineHeight;
  }
  body += notes_from(notes, y);
  return svg_document(y + kPictureMargin / 2, title, subtitle, body);
}

std::string cost_lines_svg(std::string_view title, std::string_view subtitle,
                           std::string_view x_title, double most_x,
                           const std::vector<CostLine>& lines,
                           const std::vector<std::string>& notes) {
  double most_y = 0;
  for (const CostLine& one : lines) most_y = std::max(most_y, one.start + one.per_x * most_x);
  const Plot plot(most_x, most_y > 0 ? most_y : 1);
  std::string body = plot.axes(x_title);
  // Move the names at the right ends apart, so that they do not cover each other.
  std::vector<double> names_at;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const CostLine& one = lines[i];
    const std::string_view colour = kColours[i % kColours.size()];
    const double end = one.start + one.per_x * most_x;
    body += line(plot.x(0), plot.y(one.start), plot.x(most_x), plot.y(end), colour, 2.5);
    double at = plot.y(end) + 4;
    const auto is_taken = [&](double y) {
      return std::any_of(names_at.begin(), names_at.end(),
                         [y](double other) { return std::abs(other - y) < kPictureLineHeight; });
    };
    while (is_taken(at)) at += 4;
    names_at.push_back(at);
    body += svg_text(kPlotLeft + kPlotWidth + 10, at, clip(printable(one.name), 28),
                     fmt::format(" fill=\"{}\"", colour));
    if (!one.meets_at || *one.meets_at > most_x) continue;
    const double x = plot.x(*one.meets_at), y = plot.y(one.start + one.per_x * *one.meets_at);
    body +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\"/>\n", x, y, colour);
    body += svg_text(x + 8, y + 18, fmt::format("{:.1f}", *one.meets_at), " font-weight=\"bold\"");
  }
  int y = kTop + kPlotHeight + 68;
  body += notes_from(notes, y);
  return svg_document(y + kPictureMargin / 2, title, subtitle, body);
}

}  // namespace berth::output
