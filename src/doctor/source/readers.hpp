// The readers that read_bytes() calls. They return marks without `code`, except the reader of
// articles.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/source/source.hpp"

namespace berth::doctor::source {

using Marks = std::vector<Mark>;

/// Uses the syntax tree that `python` returns. If there is none, uses line patterns and sets
/// `no_tree` to the reason. `bad_line` becomes the line of a syntax error, or 0 if there is none or
/// it is unknown.
Marks python_marks(std::string_view code, const std::string& python, std::string* no_tree,
                   int* bad_line = nullptr);
/// Reads the code cells of a notebook, with their `!` and `%` lines.
Marks notebook_marks(std::string_view bytes, const std::string& python, std::string* no_tree);
/// Reads one notebook cell: Python with `!` and `%` lines.
Marks cell_marks(const std::vector<std::string>& lines, const std::string& python,
                 std::string* no_tree);
/// Whether the text is JSON with the cells of notebook format 4.
bool is_notebook(std::string_view bytes);
/// Finds marks by line patterns, and only in clear cases. Skips comments and multi-line strings.
Marks python_lines(std::string_view text);

/// Runs `script` with a Python interpreter, which is a path or a name in PATH, and returns its
/// output. nullopt if there is no valid output; `late` is then true if the time limit was reached.
std::optional<std::string> ask_interpreter(const std::string& python, const std::string& script,
                                           std::string_view input, std::chrono::seconds most,
                                           bool& late);

struct Line {
  int number = 0;
  std::size_t indent = 0;
  std::string_view text;  // the line without comment and surrounding blanks
};
/// Removes comments (from `#` on), and returns the lines that are then not empty.
std::vector<Line> lines_of(std::string_view text);

std::string lower(std::string_view text);

}  // namespace berth::doctor::source
