#include "sim/toml_text.hpp"

namespace berth::sim {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// How many bytes from `at` on belong to the string that begins there, with its quotes. One that
/// does not end goes to the end of the text, or of the line where it must end there: the reader
/// stops at the same place.
std::size_t string_length(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const bool long_form = at + 2 < text.size() && text[at + 1] == quote && text[at + 2] == quote;
  for (std::size_t i = at + (long_form ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (long_form ? text.substr(i, 3) == text.substr(at, 3) : text[i] == quote) {
      std::size_t end = i + (long_form ? 3 : 1);
      // A long string may end in five quotes, two of which are its own.
      for (int extra = 0; long_form && extra < 2 && end < text.size() && text[end] == quote;
           ++extra)
        ++end;
      return end - at;
    } else if (text[i] == '\n' && !long_form) {
      return i - at;
    }
  }
  return text.size() - at;
}

/// A quote elsewhere ("58'") is an error, and the reader looks at what follows as at a number.
bool may_begin_string(std::string_view text, std::size_t at) {
  constexpr std::string_view kBefore = " \t\r\n=[{,";
  return at == 0 || kBefore.find(text[at - 1]) != std::string_view::npos;
}

std::size_t comment_length(std::string_view text, std::size_t at) {
  const auto end = text.find('\n', at);
  return (end == std::string_view::npos ? text.size() : end) - at;
}

}  // namespace

std::optional<std::size_t> line_beyond_ascii(std::string_view text) {
  std::size_t line = 1;
  std::size_t at =
      text.substr(0, kByteOrderMark.size()) == kByteOrderMark ? kByteOrderMark.size() : 0;
  while (at < text.size()) {
    const char c = text[at];
    if (static_cast<unsigned char>(c) > 0x7f) return line;
    std::size_t length = 1;
    if (c == '#') length = comment_length(text, at);
    if ((c == '"' || c == '\'') && may_begin_string(text, at)) length = string_length(text, at);
    for (std::size_t i = at; i < at + length; ++i)
      if (text[i] == '\n') ++line;
    at += length;
  }
  return std::nullopt;
}

}  // namespace berth::sim
