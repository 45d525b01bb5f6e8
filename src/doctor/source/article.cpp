// Finds and reads the code in an article or an answer: in fenced, indented or numbered blocks, or
// between lines of prose. Each block counts as a file of its own, but the imports of a Python block
// also apply to the Python blocks after it.
#include <algorithm>
#include <cctype>
#include <optional>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/source/article.hpp"
#include "doctor/source/shell.hpp"

namespace berth::doctor::source {
namespace {

constexpr std::size_t kMostBlocks = 100;
constexpr int kMostTries = 6;  // how often a block may be split in two at an invalid line
// stop using the parser after two blocks without an answer, because each may take 10 s
constexpr int kMostUnanswered = 2;

bool begins_with_any(std::string_view text, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.starts_with(word); });
}

std::size_t indent_of(std::string_view line) {
  return std::min(line.find_first_not_of(" \t"), line.size());
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// The line with plain spaces and quotes: web pages often contain no-break or ideographic spaces,
/// and curly quotes.
std::string plain(std::string_view line) {
  std::string text(line);
  if (text.ends_with('\r')) text.pop_back();
  for (const auto& [from, to] :
       {std::pair("\xc2\xa0", " "), std::pair("\xe3\x80\x80", "  "), std::pair("\xe2\x80\x8b", ""),
        std::pair("“", "\""), std::pair("”", "\""), std::pair("‘", "'"), std::pair("’", "'")})
    replace_all(text, from, to);
  return text;
}

/// The word at the start of the text: letters, digits, "_" and ".".
std::string_view word_of(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 ||
                               text[end] == '_' || text[end] == '.'))
    ++end;
  return text.substr(0, end);
}

bool has_foreign_letters(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

/// The part of a line before its comment, without the content of strings.
std::string outside_strings(std::string_view line) {
  std::string out;
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != '\0' && c == '\\') {
      ++i;
    } else if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      break;
    } else {
      out += c;
    }
  }
  return out;
}

int opened_by(std::string_view line) {
  int depth = 0;
  for (const char c : outside_strings(line))
    depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
  return depth;
}

constexpr std::string_view kBlockWords[] = {"if",    "elif",   "else",    "for",  "while",
                                            "try",   "except", "finally", "with", "def",
                                            "class", "async",  "match",   "case"};

/// Whether the next lines must be indented, as after "for x in data:".
bool opens_block(std::string_view line) {
  const std::string code = outside_strings(line);
  return trim(code).ends_with(':') && std::find(std::begin(kBlockWords), std::end(kBlockWords),
                                                word_of(trim(line))) != std::end(kBlockWords);
}

bool looks_like_python(std::string_view line) {
  const std::string_view text = trim(line);
  constexpr std::string_view begins[] = {"import ", "from ",  "def ",  "class ",   "return",
                                         "raise",   "print(", "@",     "assert ",  "continue",
                                         "break",   "pass",   "with ", ">>> ",     "%",
                                         "!",       "else:",  "try:",  "finally:", "# "};
  if (text.starts_with("# ")) return true;
  if (text.empty() || has_foreign_letters(outside_strings(text))) return false;
  if (begins_with_any(text, begins) || opens_block(text)) return true;
  const std::string_view word = word_of(text);
  const std::string_view rest = trim(text.substr(word.size()));
  if (word.empty())
    return begins_with_any(text, std::span<const std::string_view>({")", "]", "}"}));
  if (rest.starts_with(','))
    return contains(rest, " = ");  // is an assignment to several names: "x, y = f()"
  constexpr std::string_view follows[] = {"=", "+=", "-=", "*=", "(", "["};
  const bool call = rest.starts_with('(') && text[word.size()] == '(';
  return call || (begins_with_any(rest, follows) && !rest.starts_with('('));
}

bool looks_like_shell(std::string_view line) {
  const std::string_view text = trim(line);
  constexpr std::string_view begins[] = {"$ ",
                                         "pip ",
                                         "pip3 ",
                                         "conda ",
                                         "mamba ",
                                         "export ",
                                         "sudo ",
                                         "docker ",
                                         "nvcc ",
                                         "nvidia-smi",
                                         "nvprof ",
                                         "python ",
                                         "python3 ",
                                         "apt ",
                                         "apt-get ",
                                         "chmod ",
                                         "torchrun ",
                                         "srun ",
                                         "sbatch ",
                                         "kubectl ",
                                         "wget ",
                                         "curl ",
                                         "git ",
                                         "source ",
                                         "cp ",
                                         "ldconfig",
                                         "nsys ",
                                         "set ",
                                         "CUDA_VISIBLE_DEVICES",
                                         "NCCL_",
                                         "CUDA_LAUNCH_BLOCKING=",
                                         "LD_LIBRARY_PATH="};
  return !has_foreign_letters(outside_strings(text)) && begins_with_any(text, begins);
}

bool begins_yaml(std::string_view line) {
  constexpr std::string_view begins[] = {
      "apiVersion:", "kind:", "services:", "version:", "dependencies:", "channels:"};
  return begins_with_any(line, begins);
}

bool begins_dockerfile(std::string_view line) {
  return line.starts_with("FROM ") && !has_foreign_letters(line);
}

Kind kind_of_line(std::string_view line) {
  if (begins_dockerfile(line)) return Kind::kDockerfile;
  if (begins_yaml(line)) return Kind::kYaml;
  if (looks_like_shell(line)) return Kind::kShell;
  return looks_like_python(line) ? Kind::kPython : Kind::kUnknown;
}

/// Guesses the kind of a block from its lines, if its language is not stated.
Kind kind_of_block(const CodeBlock& block) {
  int python = 0;
  int shell = 0;
  for (const auto& [number, line] : block.lines) {
    const Kind kind = kind_of_line(trim(line));
    if (python + shell == 0 && (kind == Kind::kDockerfile || kind == Kind::kYaml)) return kind;
    python += kind == Kind::kPython && !trim(line).starts_with('#') ? 1 : 0;
    shell += kind == Kind::kShell ? 1 : 0;
  }
  return python + shell == 0 ? Kind::kUnknown : shell > python ? Kind::kShell : Kind::kPython;
}

/// The kind for the language of a fence; nullopt for a language without rules, such as C++.
std::optional<Kind> kind_of_language(std::string_view info) {
  const std::string all = lower(info.substr(0, info.find_first_of(" {,:")));
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), all) != names.end();
  };
  if (is({"py", "python", "python3", "pycon", "ipython", "ipython3", "jupyter"}))
    return Kind::kPython;
  if (is({"sh", "bash", "shell", "zsh", "console", "terminal", "shell-session", "slurm"}))
    return Kind::kShell;
  if (is({"dockerfile", "docker"})) return Kind::kDockerfile;
  if (is({"yaml", "yml"})) return Kind::kYaml;
  if (is({"requirements", "requirements.txt", "pip-requirements"})) return Kind::kRequirements;
  if (is({"", "text", "txt", "plain", "plaintext", "code", "none"})) return Kind::kUnknown;
  return std::nullopt;
}

// ---- removing numbers and prompts that were copied with the code

/// The number at the start of a line, and the text after the number.
std::optional<std::pair<long, std::string_view>> numbered(std::string_view line) {
  const std::size_t begin = indent_of(line);
  std::size_t end = begin;
  while (end < line.size() && end - begin < 5 && line[end] >= '0' && line[end] <= '9') ++end;
  if (end == begin) return std::nullopt;
  const long number = to_number(line.substr(begin, end - begin)).value_or(-1);
  std::string_view rest = line.substr(end);
  if (!rest.empty() && std::string_view(".:|)]").find(rest.front()) != std::string_view::npos)
    rest.remove_prefix(1);
  if (!rest.empty() && (rest.front() == ' ' || rest.front() == '\t')) rest.remove_prefix(1);
  return std::pair(number, rest);
}

/// Removes line numbers if all lines have consecutive numbers. Also removes groups of lines that
/// contain only consecutive numbers.
void drop_numbers(CodeBlock& block) {
  std::vector<std::string> without;
  long last = -1;
  bool all = block.lines.size() > 1;
  for (const auto& [number, line] : block.lines) {
    if (trim(line).empty()) {
      without.emplace_back();
      continue;
    }
    const auto one = numbered(line);
    all = all && one && (last < 0 || one->first == last + 1);
    if (!all) break;
    last = one->first;
    without.emplace_back(one->second);
  }
  const bool text = std::any_of(without.begin(), without.end(),
                                [](const std::string& one) { return !trim(one).empty(); });
  if (all && text)
    for (std::size_t i = 0; i < without.size(); ++i) block.lines[i].second = without[i];
  for (std::size_t i = 0; i < block.lines.size();) {
    std::size_t end = i;
    long next = -1;
    for (; end < block.lines.size(); ++end) {
      const auto one = numbered(block.lines[end].second);
      if (!one || !trim(one->second).empty() || (next >= 0 && one->first != next)) break;
      next = one->first + 1;
    }
    if (end - i > 2)
      for (std::size_t at = i; at < end; ++at) block.lines[at].second.clear();
    i = std::max(end, i + 1);
  }
}

/// Removes the prompts ">>> " and "... " and the output between them. In shell blocks, removes "$
/// ".
void drop_prompts(CodeBlock& block) {
  const bool session = std::any_of(block.lines.begin(), block.lines.end(), [](const auto& line) {
    return trim(line.second).starts_with(">>> ");
  });
  for (auto& [number, line] : block.lines) {
    const std::string_view text = trim(line);
    if (session)
      line = text.starts_with(">>> ") || text.starts_with("... ") ? std::string(text.substr(4))
                                                                  : std::string();
    const bool prompt = block.kind == Kind::kShell &&
                        (text.starts_with("$ ") ||  // root's prompt is "# "
                         (text.starts_with("# ") && looks_like_shell(text.substr(2))));
    if (prompt) line = std::string(text.substr(2));
  }
}

void drop_indent(CodeBlock& block) {
  std::size_t least = std::string::npos;
  for (const auto& [number, line] : block.lines)
    if (!trim(line).empty()) least = std::min(least, indent_of(line));
  for (auto& [number, line] : block.lines) line.erase(0, std::min(least, line.size()));
}

// ---- restoring indentation that was lost

/// Whether a line must be followed by an indented block, but no line is indented.
bool lost_indentation(const CodeBlock& block) {
  bool opens = false;
  for (const auto& [number, line] : block.lines) {
    if (trim(line).empty()) continue;
    if (indent_of(line) > 0) return false;
    opens = opens || opens_block(line);
  }
  return opens;
}

/// Guesses the indentation from keywords. A line belongs to the block above it, until a keyword or
/// an empty line ends that block.
class Indentation {
 public:
  /// The indentation depth of the next line.
  std::size_t of(std::string_view line) {
    const std::string_view word = word_of(line);
    if (line.empty()) {
      gap_ = true;
      return 0;
    }
    if (brackets_ > 0) {
      brackets_ = std::max(0, brackets_ + opened_by(line));
      return open_.size() + 1;
    }
    if (!just_opened_) leave(line, word);
    const std::size_t depth = open_.size();
    just_opened_ = opens_block(line);
    if (just_opened_) open_.emplace_back(word == "async" ? "def" : word);
    brackets_ = std::max(0, opened_by(line));
    ended_ = word == "return" || word == "raise" || word == "continue" || word == "break" ||
             word == "pass";
    gap_ = false;
    return depth;
  }

 private:
  void leave(std::string_view line, std::string_view word) {
    const bool ended = std::exchange(ended_, false);
    if (follows(word)) return;
    if (ended && !open_.empty()) open_.pop_back();
    const auto named = [&](std::string_view name) {
      return static_cast<std::size_t>(std::find(open_.begin(), open_.end(), name) - open_.begin());
    };
    if (word == "import" || word == "from" || word == "class" || line.starts_with("if __name__")) {
      open_.clear();
    } else if (word == "def" || line.starts_with('@')) {
      const bool is_method = contains(line, "(self") || contains(line, "(cls");
      open_.resize(is_method ? std::min(named("class") + 1, open_.size()) : 0);
    } else if (gap_) {
      const std::size_t function = named("def");
      open_.resize(function < open_.size() ? function + 1 : 0);
    }
  }

  /// Handles "else" and similar words: ends the inner blocks, so that the word continues the block
  /// to which it belongs. Returns false for other words, and if no block fits.
  bool follows(std::string_view word) {
    const auto continues = [&](std::string_view open) {
      if (word == "elif") return open == "if" || open == "elif";
      if (word == "except" || word == "finally") return open == "try" || open == "except";
      return word == "else" && open != "def" && open != "class" && open != "with";
    };
    for (std::size_t i = open_.size(); i-- > 0;)
      if (continues(open_[i])) {
        open_.resize(i);
        return true;
      }
    return false;
  }

  std::vector<std::string> open_;  // the keywords that opened the current blocks
  bool just_opened_ = false;
  bool ended_ = false;  // the previous line is the last one of its block, such as "return"
  bool gap_ = false;    // the previous line was empty
  int brackets_ = 0;
};

void indent(CodeBlock& block) {
  Indentation indentation;
  for (auto& [number, line] : block.lines) {
    line = std::string(trim(line));
    line.insert(0, 4 * indentation.of(line), ' ');
  }
}

/// Adds a body to a block that ends with a line such as "def f():", because the article may show
/// only this line.
void add_body(CodeBlock& block) {
  if (block.lines.empty() || !opens_block(block.lines.back().second)) return;
  const auto [number, line] = block.lines.back();
  block.lines.emplace_back(number, std::string(indent_of(line) + 4, ' ') + "pass");
}

// ---- blocks

class Blocks {
 public:
  explicit Blocks(std::string_view text) {
    int number = 0;
    for (const std::string_view line : split(text, '\n')) add(++number, plain(line));
    end();
  }

  std::vector<CodeBlock> all;

 private:
  void add(int number, std::string line) {
    while (line.starts_with("> ")) line.erase(0, 2);  // removes the marks of quoted text
    const std::string_view text = trim(line);
    const std::size_t marks = text.starts_with("```") || text.starts_with("~~~")
                                  ? std::min(text.find_first_not_of(text.front()), text.size())
                                  : 0;
    if (fence_ != 0 && marks >= fence_ && text.front() == fence_mark_ && marks == text.size()) {
      end();
    } else if (fence_ != 0) {
      block_.lines.emplace_back(number, line);
    } else if (marks > 0 && text.find('`', marks) == std::string_view::npos) {
      end();
      fence_ = marks;
      fence_mark_ = text.front();
      const auto kind = kind_of_language(trim(text.substr(marks)));
      skips_ = !kind;
      block_ = {kind.value_or(Kind::kUnknown), kind.value_or(Kind::kUnknown) != Kind::kUnknown, {}};
    } else {
      add_bare(number, line);
    }
  }

  /// Adds a line outside fences. It is either code, or prose that ends the block.
  void add_bare(int number, const std::string& line) {
    const auto after = numbered(line);
    const std::string_view code = after ? after->second : line;
    const bool is_inside = !block_.lines.empty();
    const bool is_structured = block_.kind == Kind::kYaml || block_.kind == Kind::kDockerfile;
    const bool goes_on = is_inside && (brackets_ > 0 || indent_of(line) > 1 || ends_in_backslash_);
    Kind kind = kind_of_line(trim(code));
    if (trim(code).empty() && is_inside) {
      block_.lines.emplace_back(number, line);
      return;
    }
    if (is_inside && is_structured && !has_foreign_letters(outside_strings(code)) &&
        (contains(code, ":") || contains(code, "- ") || goes_on ||
         std::isupper(static_cast<unsigned char>(trim(code).front())) != 0))
      kind = block_.kind;
    if (goes_on && !has_foreign_letters(outside_strings(code))) kind = block_.kind;
    if (kind != block_.kind) end();
    if (kind == Kind::kUnknown) return;
    block_.kind = kind;
    block_.lines.emplace_back(number, line);
    brackets_ = kind == Kind::kPython ? std::max(0, brackets_ + opened_by(code)) : 0;
    ends_in_backslash_ = trim(code).ends_with('\\');
  }

  void end() {
    while (!block_.lines.empty() && trim(block_.lines.back().second).empty())
      block_.lines.pop_back();
    drop_numbers(block_);
    if (block_.kind == Kind::kUnknown) block_.kind = kind_of_block(block_);
    drop_prompts(block_);
    drop_indent(block_);
    if (block_.kind == Kind::kPython && lost_indentation(block_)) indent(block_);
    if (block_.kind == Kind::kPython) add_body(block_);
    if (!block_.lines.empty() && block_.kind != Kind::kUnknown && !skips_)
      all.push_back(std::move(block_));
    block_ = {Kind::kUnknown, false, {}};
    fence_ = 0;
    skips_ = false;
    brackets_ = 0;
    ends_in_backslash_ = false;
  }

  CodeBlock block_{Kind::kUnknown, false, {}};
  std::size_t fence_ = 0;  // length of the open fence; 0: outside a fence
  char fence_mark_ = '`';
  bool skips_ = false;
  int brackets_ = 0;
  bool ends_in_backslash_ = false;
};

// ---- marks

class ArticleMarks {
 public:
  explicit ArticleMarks(std::string python) : python_(std::move(python)) {}

  void add(const CodeBlock& block) {
    if (block.kind == Kind::kPython)
      add_python(block.lines, block.is_named, kMostTries);
    else
      take(block.lines, 0, marks_of_text(block.kind, joined(block.lines)));
    if (block.kind != Kind::kPython) has_code_ = true;
  }

  /// Call this after the last block. A block outside fences that is not valid Python may be prose,
  /// so it is an error only if no block could be read.
  void finish() {
    if (no_tree.empty() && !has_code_ && bad_line_ != 0)
      no_tree = text("the code at line {} is not valid Python", bad_line_);
  }

  Marks marks;
  std::string no_tree;

 private:
  using Lines = std::vector<std::pair<int, std::string>>;

  static std::string joined(const Lines& lines) {
    std::string all;
    for (const auto& [number, line] : lines) all += line + "\n";
    return all;
  }

  static Marks marks_of_text(Kind kind, const std::string& text) {
    if (kind == Kind::kShell) return shell_marks(text);
    if (kind == Kind::kDockerfile) return dockerfile_marks(text);
    return kind == Kind::kYaml ? yaml_marks(text) : requirements_marks(text);
  }

  /// Adds the marks of a block, with line numbers of the article. `before` is the number of lines
  /// that were put before the block to parse it.
  void take(const Lines& lines, int before, Marks found) {
    for (Mark& mark : found) {
      const int at = mark.line - before;
      if (at < 1 || static_cast<std::size_t>(at) > lines.size()) continue;
      const int other = mark.other - before;
      mark.other = other < 1 || static_cast<std::size_t>(other) > lines.size()
                       ? 0
                       : lines[static_cast<std::size_t>(other) - 1].first;
      mark.line = lines[static_cast<std::size_t>(at) - 1].first;
      mark.code = lines[static_cast<std::size_t>(at) - 1].second;
      marks.push_back(std::move(mark));
    }
  }

  void add_python(const Lines& lines, bool is_named, int tries) {
    if (lines.empty()) return;
    const bool has_commands = std::any_of(lines.begin(), lines.end(), [](const auto& line) {
      const std::string_view text = trim(line.second);
      return text.starts_with('!') || (text.starts_with('%') && text.size() > 1 &&
                                       std::isalpha(static_cast<unsigned char>(text[1])) != 0);
    });
    std::string why;
    int bad = 0;
    int before = 0;
    Marks found;
    if (unanswered_ >= kMostUnanswered) {
      found = python_lines(joined(lines));
    } else if (has_commands) {
      std::vector<std::string> cell;
      for (const auto& [number, line] : lines) cell.push_back(line);
      found = cell_marks(cell, python_, &why);
    } else {
      before = static_cast<int>(imports_.size());
      std::string all;
      for (const std::string& line : imports_) all += line + "\n";
      found = python_marks(all + joined(lines), python_, &why, &bad);
    }
    const auto at = static_cast<std::size_t>(std::max(0, bad - before - 1));
    if (!why.empty() && bad > before && at < lines.size() && lines.size() > 1 && tries > 0) {
      // The invalid line may be prose. Parse the lines before it and after it as two blocks.
      add_python({lines.begin(), lines.begin() + static_cast<long>(at)}, is_named, tries - 1);
      add_python({lines.begin() + static_cast<long>(at) + 1, lines.end()}, is_named, tries - 1);
      if (is_named && no_tree.empty())
        no_tree = text("the code at line {} is not valid Python", lines[at].first);
      return;
    }
    if (!why.empty() && bad == 0) ++unanswered_;
    if (why.empty()) has_code_ = true;
    if (!why.empty() && bad_line_ == 0) bad_line_ = lines[0].first;
    if (!why.empty() && is_named && no_tree.empty())
      no_tree = has_commands || bad > 0 ? text("the code at line {} is not valid Python",
                                               lines[std::min(at, lines.size() - 1)].first)
                                        : why;
    take(lines, before, std::move(found));
    if (why.empty())
      for (const auto& [number, line] : lines)
        if ((line.starts_with("import ") || line.starts_with("from ")) && opened_by(line) == 0 &&
            !line.ends_with('\\') && imports_.size() < 50)
          imports_.push_back(line);
  }

  std::string python_;
  std::vector<std::string> imports_;  // import statements of earlier blocks
  bool has_code_ = false;             // at least one block could be read
  int bad_line_ = 0;                  // first line of the first block that is not valid Python
  int unanswered_ = 0;                // blocks for which the interpreter returned no syntax tree
};

}  // namespace

std::vector<CodeBlock> code_blocks(std::string_view text) {
  return Blocks(text).all;
}

Marks article_marks(std::string_view text, const std::string& python, std::string* no_tree) {
  ArticleMarks article(python);
  const auto blocks = code_blocks(text);
  for (std::size_t i = 0; i < std::min(blocks.size(), kMostBlocks); ++i) article.add(blocks[i]);
  article.finish();
  if (blocks.size() > kMostBlocks && article.no_tree.empty())
    article.no_tree =
        berth::text("only the first {} code blocks of this article were read", kMostBlocks);
  *no_tree = article.no_tree;
  return std::move(article.marks);
}

}  // namespace berth::doctor::source
