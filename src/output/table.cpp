#include "output/table.hpp"

#include <algorithm>

namespace berth::output {
namespace {

constexpr int kGap = 2;
constexpr int kTightest = 6;

int total_of(const std::vector<int>& widths) {
  int total = 0;
  for (const int width : widths)
    if (width > 0) total += width + kGap;
  return std::max(0, total - kGap);
}

/// Builds a line. Writes spaces only before further text, so that no line ends with spaces.
class Line {
 public:
  explicit Line(const Terminal& terminal) : terminal_(terminal) {}
  void cell(const Cell& cell, int width, bool right) {
    const std::string shown = clip(cell.text, width);
    const int missing = std::max(0, width - display_width(shown));
    if (right) owed_ += missing;
    if (!shown.empty()) {
      text_.append(static_cast<std::size_t>(owed_), ' ');
      owed_ = 0;
      text_ += terminal_.paint(cell.style, shown);
    }
    owed_ += (right ? 0 : missing) + kGap;
  }
  [[nodiscard]] std::string finish() { return std::move(text_) + "\n"; }

 private:
  const Terminal& terminal_;
  std::string text_;
  int owed_ = 0;
};

}  // namespace

std::vector<int> Table::natural_widths() const {
  std::vector<int> widths(columns_.size(), 0);
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size() && c < widths.size(); ++c)
      widths[c] = std::max(widths[c], display_width(row[c].text));
  for (std::size_t c = 0; c < widths.size(); ++c)
    if (widths[c] > 0) widths[c] = std::max(widths[c], display_width(columns_[c].title));
  return widths;
}

void Table::fit(std::vector<int>& widths, int width, std::vector<std::string>* dropped) const {
  const auto spare = [&](std::size_t c, int least) {
    return columns_[c].least == 0 ? 0 : std::max(0, widths[c] - least);
  };
  const auto too_wide = [&] {
    int least = total_of(widths);
    for (std::size_t c = 0; c < columns_.size(); ++c) least -= spare(c, columns_[c].least);
    return least > width;
  };
  std::vector<bool> left_out(columns_.size(), false);
  while (too_wide()) {
    std::size_t victim = columns_.size();
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (widths[c] > 0 && columns_[c].drop > 0 &&
          (victim == columns_.size() || columns_[c].drop > columns_[victim].drop))
        victim = c;
    if (victim == columns_.size()) break;
    widths[victim] = 0;
    left_out[victim] = true;
  }
  for (std::size_t c = 0; c < columns_.size() && dropped != nullptr; ++c)
    if (left_out[c]) dropped->push_back(columns_[c].title);
  for (const bool last_resort : {false, true})
    for (std::size_t c = columns_.size(); c-- > 0;)
      widths[c] -= std::clamp(total_of(widths) - width, 0,
                              spare(c, last_resort ? kTightest : columns_[c].least));
}

std::string Table::render(const Terminal& terminal, std::vector<std::string>* dropped) const {
  std::vector<int> widths = natural_widths();
  if (terminal.is_limited) fit(widths, terminal.width, dropped);
  std::string out;
  if (!rows_.empty() && std::any_of(columns_.begin(), columns_.end(),
                                    [](const Column& column) { return !column.title.empty(); })) {
    Line line(terminal);
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (widths[c] > 0)
        line.cell(Cell(columns_[c].title, Style::kDim), widths[c], columns_[c].right);
    out += line.finish();
  }
  for (const auto& row : rows_) {
    Line line(terminal);
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (widths[c] > 0) line.cell(c < row.size() ? row[c] : Cell(), widths[c], columns_[c].right);
    out += line.finish();
  }
  return out;
}

}  // namespace berth::output
