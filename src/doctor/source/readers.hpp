// The readers behind read_bytes(); each gives marks without `code`.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/source/source.hpp"

namespace berth::doctor::source {

using Marks = std::vector<Mark>;

/// By the syntax tree, as `python` parses it; else by lines, and `no_tree` says why. `bad_line`:
/// where the code is no Python; 0: it is, or nobody says where.
Marks python_marks(std::string_view code, const std::string& python, std::string* no_tree,
                   int* bad_line = nullptr);
/// The code cells, and their `!` and `%` lines.
Marks notebook_marks(std::string_view bytes, const std::string& python, std::string* no_tree);
/// JSON with cells, as format 4 has them.
bool is_notebook(std::string_view bytes);
/// Unmistakable lines alone; comments and texts over several lines are left out.
Marks python_lines(std::string_view text);

/// What Python's parser in the embedded script said; nullopt: no answer. `python`: a path, or a
/// name on the PATH. `late`: that was because the time was over.
std::optional<std::string> ask_interpreter(const std::string& python, const std::string& script,
                                           std::string_view input, std::chrono::seconds most,
                                           bool& late);

struct Line {
  int number = 0;
  std::size_t indent = 0;
  std::string_view text;  // trimmed, without comment
};
/// Lines with something on them, where `#` begins a comment.
std::vector<Line> lines_of(std::string_view text);

std::string lower(std::string_view text);

}  // namespace berth::doctor::source
