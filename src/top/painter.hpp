// Painter: makes the bytes that change a picture in a terminal into the next one. Pure. ncurses
// could do that too, but needs three times the CPU time and a write for each changed word.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "top/line.hpp"

namespace berth::top {

struct PictureSize {
  int width = 80, height = 24;
  bool operator==(const PictureSize&) const = default;
};

/// What a terminal understands.
struct TerminalWords {
  std::function<std::string(int row, int column)> move;
  std::string clear,
      clear_line;     // clear_line clears from the cursor to the end of the line; "": not supported
  std::string plain;  // ends every style
  std::array<std::string, 7> styles;  // by output::Style
  bool is_utf8 = true;
  bool scrolls_at_the_end = false;  // the terminal scrolls when its last cell is written
};

/// The bytes that draw `after`. `before`: the lines in the terminal; nullptr: not known, so it is
/// cleared. Control characters in the lines become "?".
[[nodiscard]] std::string paint(const TerminalWords& terminal, const std::vector<Line>* before,
                                const std::vector<Line>& after, const PictureSize& size);

}  // namespace berth::top
