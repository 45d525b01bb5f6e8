// Table: cells with styles, in columns as wide as their widest cell. If the terminal is too narrow,
// some columns are clipped and others are dropped in a given order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "output/terminal.hpp"

namespace berth::output {

struct Column {
  std::string title;
  bool right = false;  // whether the column is right-aligned, for numbers
  // Before columns are dropped, this column is clipped to this width. If dropping is not enough, it
  // is clipped further. 0 means that it is never clipped.
  int least = 0;
  // If the table is too wide, the column with the largest number is dropped first. 0 means that the
  // column is never dropped.
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

/// The `least` of columns with commands or descriptions.
inline constexpr int kLeastText = 16;

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// Adds a row. Cells that are missing at its end are blank.
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  /// The table as lines. Columns that are empty in every row are left out. If the terminal is not
  /// limited, nothing is clipped or dropped. `dropped`, if given, receives the titles of dropped
  /// columns.
  [[nodiscard]] std::string render(const Terminal& terminal,
                                   std::vector<std::string>* dropped = nullptr) const;

 private:
  [[nodiscard]] std::vector<int> natural_widths() const;
  void fit(std::vector<int>& widths, int width, std::vector<std::string>* dropped) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace berth::output
