// The picture of a comparison: a bar for the median time of each setting, and a line for its range.
#include <algorithm>
#include <cmath>

#include "base/file.hpp"
#include "base/text.hpp"
#include "output/comparison.hpp"

namespace berth::output {
namespace {

using model::Comparison;
using model::SettingResult;
using model::Spread;

constexpr int kWidth = 880, kMargin = 24, kLabel = 250, kBar = 360, kRow = 34, kTop = 84;
constexpr int kLineHeight = 20;
constexpr int kTextColumns = 100;  // number of 13 px letters that fit across the picture
constexpr std::string_view kBest = "#1a7f37", kOther = "#6e87a8", kInk = "#1f2328",
                           kPale = "#656d76";

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

std::string text_at(int x, int y, std::string_view words, std::string_view more = {}) {
  return fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", x, y, more, escaped(words));
}

std::string row_of(const SettingResult& one, bool is_best, int y, double longest) {
  const int middle = y + kRow / 2;
  const int left = kMargin + kLabel;
  std::string out = text_at(kMargin, middle + 4, clip(setting_words(one.setting), 36),
                            is_best ? " font-weight=\"bold\"" : "");
  if (!one.wall_seconds || !one.out_of_race.empty())
    return out +
           text_at(left, middle + 4, clip(one.out_of_race, 70), fmt::format(" fill=\"{}\"", kPale));
  const Spread& time = *one.wall_seconds;
  const auto x_of = [&](double seconds) { return left + kBar * seconds / longest; };
  out += fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" rx=\"2\" fill=\"{}\"/>\n", left,
      y + 7, std::max(1.0, x_of(time.median) - left), kRow - 14, is_best ? kBest : kOther);
  if (time.runs > 1)
    out +=
        fmt::format("<path d=\"M{0:.1f} {2}v8m0-4H{1:.1f}m0-4v8\" stroke=\"{3}\" fill=\"none\"/>\n",
                    x_of(time.least), x_of(time.most), middle - 4, kInk);
  std::string figures = show_seconds(time.median) + "  " + show_spread(time);
  if (one.ratio) figures += "  × " + show_ratio(*one.ratio);
  return out + text_at(left + kBar + 16, middle + 4, figures);
}

}  // namespace

std::string comparison_svg(const Comparison& comparison) {
  double longest = 0;
  for (const SettingResult& one : comparison.settings)
    if (one.wall_seconds && one.out_of_race.empty())
      longest = std::max(longest, one.wall_seconds->most);
  if (longest <= 0) longest = 1;
  std::string body;
  int y = kTop;
  for (std::size_t i = 0; i < comparison.settings.size(); ++i, y += kRow)
    body += row_of(comparison.settings[i], comparison.winner == i, y, longest);
  y += kLineHeight + 8;
  for (const std::string& sentence : verdict_sentences(comparison))
    for (const std::string& line : wrap(sentence, kTextColumns)) {
      body += text_at(kMargin, y, line);
      y += kLineHeight;
    }
  if (comparison.winner) {
    std::string line =
        model::run_line(comparison.settings[*comparison.winner].setting, comparison.command);
    std::replace(line.begin(), line.end(), '\n', ' ');
    body +=
        text_at(kMargin, y + 6, clip(printable(line), kTextColumns), " font-family=\"monospace\"");
    y += kLineHeight + 6;
  }
  std::string command;
  for (const std::string& word : comparison.command) command += (command.empty() ? "" : " ") + word;
  std::replace(command.begin(), command.end(), '\n', ' ');
  const std::string runs = text_n("time, the median of {} run; the line is the range",
                                  "time, the median of {} runs; the line is the range",
                                  comparison.runs, comparison.runs);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
             "height=\"{1}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"{2}\">\n"
             "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
             kWidth, y + kMargin / 2, kInk) +
         text_at(kMargin, 34, clip(printable(command), 90),
                 " font-size=\"17\" font-weight=\"bold\"") +
         text_at(kMargin, 58, runs, fmt::format(" fill=\"{}\"", kPale)) + body + "</svg>\n";
}

}  // namespace berth::output
