// What a stream can display: width, colour, encoding. Only this folder knows about terminals.
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
  int width = 100;  // usable columns; 100 if it is not a terminal
  // false: a pipe or file without COLUMNS. Texts are wrapped, but lines of tables may be of any
  // length, so that nothing is cut.
  bool is_limited = true;

  /// Detects what the stream can display, from isatty, COLUMNS or the window size, NO_COLOR
  /// (non-empty), TERM=dumb, and whether the locale (LC_ALL, LC_CTYPE, LANG) is UTF-8. Chinese text
  /// is always UTF-8.
  [[nodiscard]] static Terminal of(int fd, ColorChoice choice);
  /// The styled text, or the plain text if colour is off.
  [[nodiscard]] std::string paint(Style style, std::string_view text) const;
  /// Adapts a finished text to the terminal. If the terminal is not UTF-8, replaces Berth's own
  /// symbols (× ° … ≤ bars) with ASCII of the same width. Text from other sources is unchanged.
  [[nodiscard]] std::string spell(std::string text) const;
};

/// Terminal columns of the text: 2 for East Asian wide characters, 0 for combining characters
/// (Unicode 15, EastAsianWidth W and F).
[[nodiscard]] int display_width(std::string_view text);
/// Cuts the text to `columns` columns; a cut text ends in "…".
[[nodiscard]] std::string clip(std::string_view text, int columns);
/// Pads with spaces to `columns` columns on the right (or on the left).
[[nodiscard]] std::string pad(std::string_view text, int columns, bool to_the_right = false);

/// Wraps the text into lines of at most `columns` columns, at spaces and between Chinese
/// characters. A word that is longer is not broken.
[[nodiscard]] std::vector<std::string> wrap(std::string_view text, int columns);

}  // namespace berth::output
