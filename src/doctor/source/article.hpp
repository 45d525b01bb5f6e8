// Extracts the code from the text of an article or an answer.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctor/source/readers.hpp"

namespace berth::doctor::source {

struct CodeBlock {
  Kind kind = Kind::kUnknown;
  bool is_named = false;  // the fence names the language; otherwise the kind is guessed
  std::vector<std::pair<int, std::string>> lines;  // pairs of line number in the article, and code
};

/// The code in the text, without line numbers and prompts. If Python code lost its indentation, the
/// indentation is guessed from keywords.
std::vector<CodeBlock> code_blocks(std::string_view text);

Marks article_marks(std::string_view text, const std::string& python, std::string* no_tree);

}  // namespace berth::doctor::source
