#include "doctor/tree/byte_text.hpp"

#include <fmt/format.h>

#include "base/text_parts.hpp"

namespace berth::doctor {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::optional<std::uint64_t> size_in(std::string_view word, unsigned base) {
  std::uint64_t value = 0;
  if (word.empty() || word.size() > 15) return std::nullopt;
  for (const char c : word) {
    const unsigned digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a') + 10
                                                  : 16;
    if (digit >= base) return std::nullopt;
    value = value * base + digit;
  }
  return value;
}

std::string in_quotes(std::string_view text) {
  const bool is_text = is_utf8(text);
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (byte < ' ' || byte == 0x7f || (byte >= 0x80 && !is_text))
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out += '"';
}

std::optional<std::string> unquoted(std::string_view text, std::string_view& rest) {
  std::string out;
  if (!text.starts_with('"')) return std::nullopt;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      rest = text.substr(i + 1);
      return out;
    }
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) break;
    switch (text[i]) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'x': {
        const auto byte = size_in(text.substr(i + 1, 2), 16);
        if (!byte || i + 2 >= text.size()) return std::nullopt;
        out += static_cast<char>(*byte);
        i += 2;
        break;
      }
      default:
        out += text[i];
    }
  }
  return std::nullopt;
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes)
    out += fmt::format("{}{:02x}", out.empty() ? "" : " ", static_cast<unsigned char>(c));
  return out;
}

std::optional<std::string> from_hex(std::string_view text) {
  std::string out;
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    const auto byte = size_in(word, 16);
    if (word.size() != 2 || !byte) return std::nullopt;
    out += static_cast<char>(*byte);
  }
  return out;
}

std::string base64(std::string_view bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      out += i + j > bytes.size() ? '=' : kDigits[group >> (18 - 6 * j) & 63];
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string out;
  unsigned bits = 0;
  int have = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = (bits << 6 | static_cast<unsigned>(digit)) & 0xffffff;
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out += static_cast<char>(bits >> have & 0xff);
  }
  return out;
}

}  // namespace berth::doctor
