// The picture of a comparison: a bar for the median time of each setting, and a line for the range
// of its times.
#include <algorithm>
#include <cmath>

#include "base/file.hpp"
#include "base/text.hpp"
#include "output/comparison.hpp"
#include "output/svg.hpp"

namespace berth::output {
namespace {

using model::Comparison;
using model::SettingResult;
using model::Spread;

constexpr int kLabel = 250, kBar = 360, kRow = 34, kTop = 84;

std::string row_of(const SettingResult& one, bool is_best, int y, double longest) {
  const int middle = y + kRow / 2;
  const int left = kPictureMargin + kLabel;
  std::string out = svg_text(kPictureMargin, middle + 4, clip(setting_words(one.setting), 36),
                             is_best ? " font-weight=\"bold\"" : "");
  if (!one.wall_seconds || !one.out_of_race.empty())
    return out + svg_text(left, middle + 4, clip(one.out_of_race, 70),
                          fmt::format(" fill=\"{}\"", kPicturePale));
  const Spread& time = *one.wall_seconds;
  const auto x_of = [&](double seconds) { return left + kBar * seconds / longest; };
  out +=
      fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" rx=\"2\" fill=\"{}\"/>\n",
                  left, y + 7, std::max(1.0, x_of(time.median) - left), kRow - 14,
                  is_best ? kPictureBest : kPictureOther);
  if (time.runs > 1)
    out +=
        fmt::format("<path d=\"M{0:.1f} {2}v8m0-4H{1:.1f}m0-4v8\" stroke=\"{3}\" fill=\"none\"/>\n",
                    x_of(time.least), x_of(time.most), middle - 4, kPictureInk);
  std::string figures = show_seconds(time.median) + "  " + show_spread(time);
  if (one.ratio) figures += "  × " + show_ratio(*one.ratio);
  return out + svg_text(left + kBar + 16, middle + 4, figures);
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
  y += kPictureLineHeight + 8;
  for (const std::string& sentence : verdict_sentences(comparison))
    for (const std::string& line : wrap(sentence, kPictureColumns)) {
      body += svg_text(kPictureMargin, y, line);
      y += kPictureLineHeight;
    }
  if (comparison.winner) {
    std::string line =
        model::run_line(comparison.settings[*comparison.winner].setting, comparison.command);
    std::replace(line.begin(), line.end(), '\n', ' ');
    body += svg_text(kPictureMargin, y + 6, clip(printable(line), kPictureColumns),
                     " font-family=\"monospace\"");
    y += kPictureLineHeight + 6;
  }
  std::string command;
  for (const std::string& word : comparison.command) command += (command.empty() ? "" : " ") + word;
  std::replace(command.begin(), command.end(), '\n', ' ');
  const std::string runs = text_n("bar: median time of {} run; line: shortest to longest time",
                                  "bar: median time of {} runs; line: shortest to longest time",
                                  comparison.runs, comparison.runs);
  return svg_document(y + kPictureMargin / 2, command, runs, body);
}

}  // namespace berth::output
