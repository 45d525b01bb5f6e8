// The readers behind read_bytes(). Each returns marks without `code`.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/source/source.hpp"

namespace berth::doctor::source {

using Marks = std::vector<Mark>;

/// Uses the syntax tree from `python`; without it, line patterns, and `no_tree` says why.
/// `bad_line`: the line of a syntax error; 0: none or unknown.
Marks python_marks(std::string_view code, const std::string& python, std::string* no_tree,
                   int* bad_line = nullptr);
/// The code cells and their `!` and `%` lines.
Marks notebook_marks(std::string_view bytes, const std::string& python, std::string* no_tree);
/// One cell of a notebook: Python with `!` and `%` lines.
Marks cell_marks(const std::vector<std::string>& lines, const std::string& python,
                 std::string* no_tree);
/// Whether it is JSON with cells in notebook format 4.
bool is_notebook(std::string_view bytes);
/// Only finds unambiguous lines; skips comments and multi-line strings.
Marks python_lines(std::string_view text);

/// The answer of Python's parser, called by the embedded script; nullopt: no answer. `python`: a
/// path or a name in PATH. `late`: set if the time was over.
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
