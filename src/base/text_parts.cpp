#include "base/text_parts.hpp"

#include <algorithm>
#include <charconv>

namespace berth {

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n\v\f");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n\v\f") - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> split_outside_brackets(std::string_view list) {
  std::vector<std::string_view> found;
  bool inside = false;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= list.size(); ++at) {
    if (at < list.size() && (list[at] == '[' || list[at] == ']')) inside = list[at] == '[';
    if (at < list.size() && (list[at] != ',' || inside)) continue;
    if (at > begin) found.push_back(list.substr(begin, at - begin));
    begin = at + 1;
  }
  return found;
}

std::optional<std::int64_t> to_number(std::string_view text) {
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    text.remove_prefix(2);
    base = 16;
  }
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

namespace {
/// The length of a UTF-8 sequence that starts with the byte `lead`; 0 if no valid sequence starts
/// with this byte.
std::size_t announced_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

/// Whether `second` may be the byte after `lead` in UTF-8. Excludes overlong forms, surrogates, and
/// code points above U+10FFFF.
bool may_follow(unsigned char lead, unsigned char second) {
  const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  return second >= least && second <= most;
}

/// The length of the valid UTF-8 sequence at the start of `bytes`; 0 if there is none (RFC 3629).
std::size_t sequence_length(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const std::size_t length = announced_length(at(0));
  if (length == 0 || length > bytes.size()) return 0;
  if (length > 1 && !may_follow(at(0), at(1))) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((at(i) & 0xC0U) != 0x80) return 0;
  return length;
}
}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t length = sequence_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t length = sequence_length(bytes);
    const auto lead = static_cast<unsigned char>(bytes[0]);
    const bool control =
        (length == 1 && (lead < 0x20 || lead == 0x7F)) ||
        (length == 2 && lead == 0xC2 && static_cast<unsigned char>(bytes[1]) < 0xA0);
    if (length == 0 || control)
      out += "\xEF\xBF\xBD";
    else
      out.append(bytes.substr(0, length));
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

}  // namespace berth
