#include "system/process_text.hpp"

#include <charconv>
#include <limits>

#include "base/text_parts.hpp"

namespace berth::system {

namespace {

/// Removes and returns the first word of `text`. Returns "" if `text` has no more words.
std::string_view next_word(std::string_view& text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return text = {};
  text.remove_prefix(first);
  const std::string_view word = text.substr(0, text.find_first_of(" \t\n"));
  text.remove_prefix(word.size());
  return word;
}

template <typename T>
std::optional<T> number_of(std::string_view word) {
  T number = 0;
  const char* end = word.data() + word.size();
  const auto [stop, problem] = std::from_chars(word.data(), end, number);
  if (word.empty() || problem != std::errc() || stop != end) return std::nullopt;
  return number;
}

/// The value of a line "Key:\tvalue"; nullopt if the line has another key.
std::optional<std::string_view> value_of(std::string_view line, std::string_view key) {
  if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':')
    return std::nullopt;
  return line.substr(key.size() + 1);
}

}  // namespace

std::optional<StatLine> parse_stat(std::string_view text) {
  // The name is in parentheses and may itself contain parentheses. The fields after it contain
  // none, so the last ")" ends the name.
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return std::nullopt;
  StatLine stat;
  const auto pid = number_of<std::int64_t>(trim(text.substr(0, open)));
  if (!pid) return std::nullopt;
  stat.pid = *pid;
  stat.name = text.substr(open + 1, close - open - 1);

  std::string_view rest = text.substr(close + 1);
  const std::string_view state = next_word(rest);
  if (state.size() != 1) return std::nullopt;
  stat.state = state[0];
  constexpr int kParent = 4, kFlags = 9, kUserTicks = 14, kSystemTicks = 15, kThreads = 20,
                kStart = 22, kVirtual = 23, kRss = 24;
  for (int field = kParent; field <= kRss; ++field) {
    const std::string_view word = next_word(rest);
    if (field != kParent && field != kFlags && field != kUserTicks && field != kSystemTicks &&
        field != kThreads && field < kStart)
      continue;
    const auto number = number_of<std::uint64_t>(word);
    if (!number) return std::nullopt;
    if (field == kParent) stat.parent = static_cast<std::int64_t>(*number);
    if (field == kFlags) stat.flags = *number;
    if (field == kUserTicks || field == kSystemTicks) stat.cpu_ticks += *number;
    if (field == kThreads) stat.threads = *number;
    if (field == kStart) stat.start_ticks = *number;
    if (field == kVirtual) stat.virtual_bytes = *number;
    if (field == kRss) stat.rss_pages = *number;
  }
  return stat;
}

StatusText parse_status(std::string_view text) {
  StatusText status;
  while (!text.empty()) {
    const auto end = text.find('\n');
    // The kernel escapes newlines in the field Name:, so no process can forge a line. A last line
    // without a newline is truncated, so it is skipped.
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (auto uids = value_of(line, "Uid")) {
      static_cast<void>(next_word(
          *uids));  // skip the real uid, because the effective uid decides what the process may do
      status.uid = number_of<std::uint32_t>(next_word(*uids));
    } else if (auto rss = value_of(line, "VmRSS")) {
      const auto kibibytes = number_of<std::uint64_t>(next_word(*rss));
      if (kibibytes && *kibibytes <= std::numeric_limits<std::uint64_t>::max() / 1024)
        status.rss_bytes = *kibibytes * 1024;
    } else if (auto pids = value_of(line, "NSpid")) {
      status.namespace_pids.clear();
      while (const auto pid = number_of<std::int64_t>(next_word(*pids)))
        status.namespace_pids.push_back(*pid);
    }
  }
  return status;
}

std::string command_line(std::string_view bytes) {
  const auto last = bytes.find_last_not_of(std::string_view("\0 \n", 3));
  if (last == std::string_view::npos) return {};
  std::string line(bytes.substr(0, last + 1));
  for (char& c : line)
    if (c == '\0' || c == '\n' || c == '\t') c = ' ';
  for (const char c : line)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F)
      return printable(line);
  return line;
}

std::string user_in_passwd(std::string_view passwd, std::uint32_t uid) {
  while (!passwd.empty()) {
    const auto end = passwd.find('\n');
    const std::string_view line = passwd.substr(0, end);
    passwd.remove_prefix(end == std::string_view::npos ? passwd.size() : end + 1);
    const auto name_end = line.find(':');
    if (name_end == 0 || name_end == std::string_view::npos) continue;
    const auto password_end = line.find(':', name_end + 1);
    if (password_end == std::string_view::npos) continue;
    std::string_view rest = line.substr(password_end + 1);
    if (number_of<std::uint32_t>(rest.substr(0, rest.find(':'))) == uid)
      return printable(line.substr(0, name_end));
  }
  return {};
}

}  // namespace berth::system
