// Terminal: what an output stream can show: width, colours and encoding. No other folder has code
// for terminals.
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
  int width = 100;  // usable columns; 100 if the stream is not a terminal
  // Whether lines must fit into `width`. False for a pipe or file without COLUMNS: sentences are
  // wrapped at `width`, but lines of tables may be longer, so that nothing is clipped.
  bool is_limited = true;

  /// Detects what the stream can show. Uses isatty(), COLUMNS or the window size, NO_COLOR (not
  /// empty), TERM=dumb, and whether the locale (LC_ALL, LC_CTYPE, LANG) is UTF-8. Chinese text is
  /// always UTF-8.
  [[nodiscard]] static Terminal of(int fd, ColorChoice choice);
  /// The text with the codes of the style, or without them if colours are off.
  [[nodiscard]] std::string paint(Style style, std::string_view text) const;
  /// Adapts a finished text to the terminal. Without UTF-8, Berth's own symbols (× ° … ≤ bars)
  /// become ASCII of the same width. Other text is not changed.
  [[nodiscard]] std::string spell(std::string text) const;
};

/// The number of terminal columns that the text needs: 2 for East Asian wide characters, 0 for
/// combining characters (Unicode 15).
[[nodiscard]] int display_width(std::string_view text);
/// Shortens the text to at most `columns` columns. A shortened text ends in "…".
[[nodiscard]] std::string clip(std::string_view text, int columns);
/// Adds spaces up to `columns` columns: on the right or, if `to_the_right`, on the left.
[[nodiscard]] std::string pad(std::string_view text, int columns, bool to_the_right = false);

/// Wraps the text into lines of at most `columns` columns. Lines break at spaces and between
/// Chinese characters. A longer word is not broken.
[[nodiscard]] std::vector<std::string> wrap(std::string_view text, int columns);

}  // namespace berth::output
