#include "top/painter.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "output/character.hpp"

namespace berth::top {
namespace {

using output::Style;

/// One character cell of the screen. A wide character takes two cells, and the second of them is
/// empty.
struct Cell {
  std::string_view text = " ";
  Style style = Style::kPlain;
  bool operator==(const Cell&) const = default;
};

/// If at most this many unchanged cells lie between two changes, it takes fewer bytes to write them
/// again than to move the cursor.
constexpr std::size_t kShortGap = 7;

/// Adds the cells for the ASCII text at the beginning of `left`. Most text is ASCII, so this is
/// faster than the general way.
void add_ascii(std::string_view& left, Style style, std::size_t width, std::vector<Cell>& cells) {
  std::size_t count = 0;
  const std::size_t most = std::min(left.size(), width - cells.size());
  while (count < most && left[count] >= 0x20 && left[count] < 0x7f) ++count;
  const std::size_t first = cells.size();
  cells.resize(first + count);
  Cell* const cell = cells.data() + first;
  for (std::size_t i = 0; i < count; ++i) cell[i] = {left.substr(i, 1), style};
  left.remove_prefix(count);
}

void add_cells(const Span& span, bool is_utf8, std::size_t width, std::vector<Cell>& cells) {
  std::string_view left = span.text;
  for (;;) {
    add_ascii(left, span.style, width, cells);
    if (left.empty() || cells.size() >= width) return;
    const output::Character one = output::take_character(left);
    const bool is_shown = is_utf8 && one.code >= 0xa0;
    const auto columns = is_shown ? static_cast<std::size_t>(one.columns) : 1;
    if (columns == 0) {
      // A character of width 0 (such as an accent) belongs to the previous cell.
      if (!cells.empty() && cells.back().text.data() + cells.back().text.size() == one.bytes.data())
        cells.back().text = {cells.back().text.data(), cells.back().text.size() + one.bytes.size()};
      continue;
    }
    if (cells.size() + columns > width) return;
    cells.push_back({is_shown ? one.bytes : "?", span.style});
    if (columns == 2) cells.push_back({"", span.style});
  }
}

void cells_of(const Line& line, bool is_utf8, std::size_t width, std::vector<Cell>& cells) {
  cells.clear();
  for (const Span& span : line) add_cells(span, is_utf8, width, cells);
  while (!cells.empty() && cells.back() == Cell{}) cells.pop_back();
}

class Work {
 public:
  Work(const TerminalWords& terminal, const PictureSize& size)
      : terminal_(terminal),
        width_(static_cast<std::size_t>(size.width)),
        height_(static_cast<std::size_t>(size.height)) {}

  std::string run(const std::vector<Line>* before, const std::vector<Line>& after) {
    static const Line kEmpty;
    if (before == nullptr) out_ = terminal_.plain + terminal_.clear;
    const std::size_t old_rows = before == nullptr ? 0 : before->size();
    for (std::size_t row = 0; row < std::min(height_, std::max(old_rows, after.size())); ++row) {
      const Line& old_line = row < old_rows ? (*before)[row] : kEmpty;
      const Line& new_line = row < after.size() ? after[row] : kEmpty;
      if (old_line == new_line) continue;
      const std::size_t width =
          width_ - (terminal_.scrolls_at_the_end && row + 1 == height_ ? 1 : 0);
      cells_of(old_line, terminal_.is_utf8, width, old_);
      cells_of(new_line, terminal_.is_utf8, width, new_);
      draw_row(row);
    }
    set_style(Style::kPlain);
    return std::move(out_);
  }

 private:
  void draw_row(std::size_t row) {
    const bool is_cleared = new_.size() < old_.size() && !terminal_.clear_line.empty();
    if (!is_cleared) new_.resize(std::max(new_.size(), old_.size()));
    // At first the cursor's position is unknown: after a write to the last column, terminals put it
    // on this line or on the next.
    std::size_t cursor = width_;
    for (std::size_t at = 0; at < new_.size(); ++at) {
      if (new_[at] == (at < old_.size() ? old_[at] : Cell{})) continue;
      go_to(row, cursor, at);
      write(new_[at]);
      cursor = at + 1;
      // A wide character also fills the next cell, which needs no output.
      if (cursor < new_.size() && new_[cursor].text.empty()) at = cursor++;
    }
    if (!is_cleared) return;
    set_style(Style::kPlain);
    if (cursor != new_.size() || cursor == width_)
      out_ += terminal_.move(static_cast<int>(row), static_cast<int>(new_.size()));
    out_ += terminal_.clear_line;
  }

  void go_to(std::size_t row, std::size_t cursor, std::size_t to) {
    if (cursor == to) return;
    const bool is_near = cursor < to && to - cursor <= kShortGap &&
                         std::all_of(new_.begin() + static_cast<std::ptrdiff_t>(cursor),
                                     new_.begin() + static_cast<std::ptrdiff_t>(to),
                                     [&](const Cell& one) { return one.style == style_; });
    if (!is_near) {
      out_ += terminal_.move(static_cast<int>(row), static_cast<int>(to));
      return;
    }
    for (; cursor < to; ++cursor) out_ += new_[cursor].text;
  }

  void write(const Cell& cell) {
    set_style(cell.style);
    out_ += cell.text;
  }

  void set_style(Style style) {
    if (style == style_) return;
    if (style_ != Style::kPlain) out_ += terminal_.plain;
    out_ += terminal_.styles[static_cast<std::size_t>(style)];
    style_ = style;
  }

  const TerminalWords& terminal_;
  std::size_t width_, height_;
  std::string out_;
  std::vector<Cell> old_, new_;
  Style style_ = Style::kPlain;
};

}  // namespace

std::string paint(const TerminalWords& terminal, const std::vector<Line>* before,
                  const std::vector<Line>& after, const PictureSize& size) {
  return Work(terminal, size).run(before, after);
}

}  // namespace berth::top
