#include "doctor/error/error_text.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "doctor/error/memory_text.hpp"

namespace berth::doctor {
namespace {

constexpr std::size_t kLongestLine = 160;
constexpr std::size_t kNearBy = 300;

bool is_blank(unsigned char c) {
  return c <= ' ';
}

/// Returns the position after the terminal escape sequence that starts at `at`. Such sequences set
/// colours or titles, or move the cursor.
std::size_t behind_escape(std::string_view text, std::size_t at) {
  if (++at >= text.size()) return at;
  const char kind = text[at++];
  if (kind == '[') {
    while (at < text.size() && (text[at] < '@' || text[at] > '~') && text[at] != '\n') ++at;
    return std::min(at + 1, text.size());
  }
  if (kind != ']') return at;
  while (at < text.size() && text[at] != '\a' && text[at] != '\x1b' && text[at] != '\n') ++at;
  return at < text.size() && text[at] == '\a' ? at + 1 : at;
}

/// Removes the zero bytes of UTF-16 text, which some editors and shells write. ASCII text remains.
std::string without_zeros(std::string_view bytes) {
  std::string out(bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff") ? bytes.substr(2)
                                                                                 : bytes);
  std::erase(out, '\0');
  return out;
}

/// A text in lower case with single spaces, without escape sequences and mail quote marks.
/// line_at() returns the line number for a position in it.
struct Folded {
  std::string text;
  std::vector<std::size_t> lines;  // position in `text` at which each line starts

  [[nodiscard]] int line_at(std::size_t at) const {
    return static_cast<int>(std::upper_bound(lines.begin(), lines.end(), at) - lines.begin());
  }
};

Folded fold(std::string_view given) {
  Folded folded;
  folded.text.reserve(given.size());
  folded.lines.push_back(0);
  bool at_begin = true;
  for (std::size_t at = 0; at < given.size();) {
    const char c = given[at];
    if (c == '\x1b') {
      at = behind_escape(given, at);
      continue;
    }
    ++at;
    if (is_blank(static_cast<unsigned char>(c))) {
      if (!folded.text.empty() && folded.text.back() != ' ') folded.text += ' ';
      if (c == '\n') folded.lines.push_back(folded.text.size());
      at_begin = at_begin || c == '\n';
    } else if (!at_begin || (c != '>' && c != '|')) {
      folded.text += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      at_begin = false;
    }
  }
  return folded;
}

/// `words` has parts separated by "*". Searches `text` for these parts in order, each close to the
/// previous one. Returns the position of the first part, or npos.
std::size_t find_parts(std::string_view text, std::string_view words) {
  const auto parts = split(words, '*');
  std::size_t from = 0;
  // Limits the run time for a text in which the first part is very frequent.
  for (int tries = 0; tries < 1000; ++tries) {
    const std::size_t first = text.find(parts.front(), from);
    if (first == std::string_view::npos) return first;
    std::size_t end = first + parts.front().size();
    bool all = true;
    for (std::size_t i = 1; i < parts.size() && all; ++i) {
      const std::size_t next = text.substr(end, kNearBy).find(parts[i]);
      all = next != std::string_view::npos;
      if (all) end += next + parts[i].size();
    }
    if (all) return first;
    from = first + 1;
  }
  return std::string_view::npos;
}

std::string shown(std::string_view line) {
  std::string plain;
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] == '\x1b') {
      at = behind_escape(line, at);
    } else {
      if (line[at] != '\r') plain += line[at];
      ++at;
    }
  }
  std::string_view whole = trim(plain);
  if (whole.size() <= kLongestLine) return printable(whole);
  std::size_t end = kLongestLine;
  while (end > 0 && (static_cast<unsigned char>(whole[end]) & 0xc0) == 0x80) --end;
  return printable(whole.substr(0, end)) + "…";
}

}  // namespace

bool speaks_of(const Recognised& message, std::string_view rule) {
  return std::any_of(message.rules.begin(), message.rules.end(), [&](std::string_view pattern) {
    return pattern.ends_with('*') ? rule.starts_with(pattern.substr(0, pattern.size() - 1))
                                  : pattern == rule;
  });
}

std::vector<Recognised> read_error_text(std::string_view bytes, int lines_before) {
  if (bytes.size() > kMostErrorText) {
    const std::size_t over = bytes.size() - kMostErrorText;
    lines_before += static_cast<int>(
        std::count(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(over), '\n'));
    bytes = bytes.substr(over);
  }
  const std::string text = without_zeros(bytes);
  const Folded folded = fold(text);
  const auto lines = split(std::string_view(text), '\n');
  std::vector<Recognised> found;
  for (const Signature& row : signatures()) {
    const std::size_t at = find_parts(folded.text, row.words);
    if (at == std::string_view::npos) continue;
    const int line = folded.line_at(at);
    const auto known = std::find_if(found.begin(), found.end(),
                                    [&](const Recognised& one) { return one.name == row.name; });
    if (known != found.end() && known->line <= line) continue;
    Recognised one{row.name, line, "", row.strength, {}, std::string(tr(row.means)), 0};
    if (static_cast<std::size_t>(line) <= lines.size())
      one.text = shown(lines[static_cast<std::size_t>(line) - 1]);
    for (const std::string_view id : split(std::string_view(row.rules), ' '))
      if (!id.empty()) one.rules.emplace_back(id);
    if (one.name == "out-of-memory") {
      const MemoryText memory = read_memory_text(std::string_view(folded.text).substr(at));
      if (!memory.sentence.empty()) one.means += ": " + memory.sentence;
      one.asked_bytes = memory.asked_bytes;
    }
    if (known != found.end())
      *known = std::move(one);
    else
      found.push_back(std::move(one));
  }
  // NCCL allocates its buffers through CUDA. If CUDA was out of memory, that is the cause, and
  // NCCL's own message would mislead.
  if (folded.text.find("cuda failure 'out of memory'") != std::string::npos ||
      folded.text.find("cuda failure 2 'out of memory'") != std::string::npos)
    std::erase_if(found, [](const Recognised& one) { return one.name == "nccl"; });
  std::stable_sort(found.begin(), found.end(), [](const Recognised& a, const Recognised& b) {
    return std::pair(-a.strength, a.line) < std::pair(-b.strength, b.line);
  });
  for (Recognised& one : found) one.line += lines_before;
  return found;
}

}  // namespace berth::doctor
