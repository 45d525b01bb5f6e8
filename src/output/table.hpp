// Table: styled cells in columns as wide as their widest cell. If the terminal is narrow, it clips
// some columns and drops others in a given order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "output/terminal.hpp"

namespace berth::output {

struct Column {
  std::string title;
  bool right = false;  // right-aligned, for numbers
  // The column is clipped to this width before columns are dropped. If the table is still too wide
  // after that, the column is clipped further. 0: never clipped.
  int least = 0;
  // If the table is too wide, the columns with the largest number are dropped first. 0: never
  // dropped.
  int drop = 0;
};

struct Cell {
  std::string text;
  Style style = Style::kPlain;
  // NOLINTNEXTLINE(google-explicit-constructor)
  Cell(std::string given = {}, Style painted = Style::kPlain)
      : text(std::move(given)), style(painted) {}
  Cell(const char* given) : text(given) {}  // NOLINT(google-explicit-constructor)
};

/// The minimum width of columns with commands or descriptions.
inline constexpr int kLeastText = 16;

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// Adds a row. Cells that are missing at its end are blank.
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  /// Lines ending in '\n'. Columns that are "" in every row are omitted with their title.
  /// Nothing is cut or dropped if the terminal is not limited.
  /// `dropped`, if given, receives the titles of columns that did not fit.
  [[nodiscard]] std::string render(const Terminal& terminal,
                                   std::vector<std::string>* dropped = nullptr) const;

 private:
  [[nodiscard]] std::vector<int> natural_widths() const;
  void fit(std::vector<int>& widths, int width, std::vector<std::string>* dropped) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace berth::output
