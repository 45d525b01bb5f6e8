// What a stream can show: width, colour. Knowledge of terminals ends in this room.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace berth::output {

enum class ColorChoice { kAuto, kAlways, kNever };
enum class Style { kPlain, kBold, kDim, kRed, kYellow, kGreen, kCyan };

struct Terminal {
  bool tty = false;
  bool color = false;
  bool utf8 = true;
  int width = 100;  // columns to use: the terminal's, 100 where it is not one

  /// Looks at the stream: isatty, COLUMNS or the window size, NO_COLOR (non-empty), TERM=dumb, and
  /// whether the locale (LC_ALL, LC_CTYPE, LANG) is UTF-8; Chinese text is always UTF-8.
  [[nodiscard]] static Terminal of(int fd, ColorChoice choice);
  /// The text in a style, or as it is where colour is off.
  [[nodiscard]] std::string paint(Style style, std::string_view text) const;
  /// A finished text of ours in what the terminal can show: where it is not UTF-8, our own signs (×
  /// ° … ≤ bars) become ASCII of the same width; what others wrote stays.
  [[nodiscard]] std::string spell(std::string text) const;
};

/// Columns the text takes on a terminal: 2 for East Asian wide characters, 0 for combining ones
/// (Unicode 15, EastAsianWidth W and F).
[[nodiscard]] int display_width(std::string_view text);
/// At most `columns` columns; what is cut ends in "…".
[[nodiscard]] std::string clip(std::string_view text, int columns);
/// Filled with blanks to `columns` columns on the right (or on the left).
[[nodiscard]] std::string pad(std::string_view text, int columns, bool to_the_right = false);

/// Lines of at most `columns` columns, broken at blanks and between Chinese characters; a longer
/// word stays whole.
[[nodiscard]] std::vector<std::string> wrap(std::string_view text, int columns);

}  // namespace berth::output
