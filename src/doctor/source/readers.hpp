// The readers that read_bytes() calls. They return marks without `code`.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/source/source.hpp"

namespace berth::doctor::source {

using Marks = std::vector<Mark>;

/// Uses the syntax tree from `python`; if there is none, uses line patterns, and `no_tree` says
/// why. `bad_line`: the line of a syntax error; 0: none or unknown.
Marks python_marks(std::string_view code, const std::string& python, std::string* no_tree,
                   int* bad_line = nullptr);
/// Reads the code cells with their `!` and `%` lines.
Marks notebook_marks(std::string_view bytes, const std::string& python, std::string* no_tree);
/// Reads one cell of a notebook: Python with `!` and `%` lines.
Marks cell_marks(const std::vector<std::string>& lines, const std::string& python,
                 std::string* no_tree);
/// Whether it is JSON with cells in notebook format 4.
bool is_notebook(std::string_view bytes);
/// Finds marks by line patterns. Only reports clear cases; skips comments and multi-line strings.
Marks python_lines(std::string_view text);

/// Runs the embedded script with a Python interpreter and returns its output; nullopt if there is
/// none. `python` is a path or a name in PATH. `late` is set if the time limit was reached.
std::optional<std::string> ask_interpreter(const std::string& python, const std::string& script,
                                           std::string_view input, std::chrono::seconds most,
                                           bool& late);

struct Line {
  int number = 0;
  std::size_t indent = 0;
  std::string_view text;  // trimmed, without comment
};
/// Non-empty lines; `#` starts a comment.
std::vector<Line> lines_of(std::string_view text);

std::string lower(std::string_view text);

}  // namespace berth::doctor::source
