#include "top/graph.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace berth::top {

namespace {

/// The bits of the dots in a braille character: first the left column, then the right, each from
/// the bottom up (Unicode 15, U+2800).
constexpr std::array<std::array<unsigned, 4>, 2> kDots = {
    {{0x40, 0x04, 0x02, 0x01}, {0x80, 0x20, 0x10, 0x08}}};

std::string braille(unsigned dots) {
  const unsigned code = 0x2800 + dots;
  return {static_cast<char>(0xE0 | (code >> 12U)), static_cast<char>(0x80 | ((code >> 6U) & 0x3FU)),
          static_cast<char>(0x80 | (code & 0x3FU))};
}

/// Returns how many of `levels` steps a value fills. The result is at least 1, so that 0 % looks
/// different from an unknown value.
int level_of(double percent, int levels) {
  const double share = std::clamp(percent, 0.0, 100.0) / 100;
  return std::max(1, static_cast<int>(std::lround(share * levels)));
}

}  // namespace

std::vector<std::string> draw_graph(const std::vector<std::optional<double>>& values, int columns,
                                    int rows, bool utf8) {
  const int per_column = utf8 ? 2 : 1, per_row = utf8 ? 4 : 2;
  const int slots = columns * per_column, levels = rows * per_row;
  std::vector<int> heights(static_cast<std::size_t>(std::max(slots, 0)), 0);
  const std::size_t shown = std::min(values.size(), heights.size());
  for (std::size_t i = 0; i < shown; ++i)
    if (const auto& value = values[values.size() - shown + i])
      heights[heights.size() - shown + i] = level_of(*value, levels);
  std::vector<std::string> lines;
  for (int row = rows - 1; row >= 0; --row) {
    std::string line;
    for (int column = 0; column < columns; ++column) {
      const auto height = [&](int side) {
        return heights[static_cast<std::size_t>(column * per_column + side)] - row * per_row;
      };
      if (!utf8) {
        line += height(0) >= 2 ? '#' : height(0) == 1 ? '.' : ' ';
        continue;
      }
      unsigned dots = 0;
      for (int side = 0; side < 2; ++side)
        for (int dot = 0; dot < 4; ++dot)
          if (height(side) > dot)
            dots |= kDots[static_cast<std::size_t>(side)][static_cast<std::size_t>(dot)];
      line += dots == 0 ? " " : braille(dots);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string draw_bar(std::optional<double> percent, int columns, bool utf8) {
  if (!percent) return std::string(static_cast<std::size_t>(columns), ' ');
  const int full = static_cast<int>(
      std::lround(std::clamp(*percent, 0.0, 100.0) / 100 * static_cast<double>(columns)));
  std::string bar;
  for (int i = 0; i < columns; ++i) {
    if (utf8)
      bar += i < full ? "▇" : "▁";
    else
      bar += i < full ? "#" : "_";
  }
  return bar;
}

}  // namespace berth::top
