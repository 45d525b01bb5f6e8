// Painter: computes the bytes that change the terminal's picture into the next one. Pure. ncurses
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

/// The escape sequences of a terminal, and what it supports.
struct TerminalWords {
  std::function<std::string(int row, int column)> move;
  std::string clear,
      clear_line;                     // clear to the end of the line; "": not supported
  std::string plain;                  // resets all colours and styles
  std::array<std::string, 7> styles;  // the index is output::Style
  bool is_utf8 = true;
  bool scrolls_at_the_end = false;  // the terminal scrolls when its bottom right cell is written
};

/// Returns the bytes that draw `after`. `before`: the lines that the terminal shows now; nullptr if
/// they are unknown, and the terminal is then cleared first. Control characters in the lines become
/// "?".
[[nodiscard]] std::string paint(const TerminalWords& terminal, const std::vector<Line>* before,
                                const std::vector<Line>& after, const PictureSize& size);

}  // namespace berth::top
