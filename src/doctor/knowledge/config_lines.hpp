// Splits configuration files into lines and words. The code that parses these files and the code
// that redacts them share it, because both must find the same words.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_parts.hpp"

namespace berth::doctor {

/// The words of a line, which spaces and tabs separate.
[[nodiscard]] inline std::vector<std::string_view> words_between_blanks(std::string_view line) {
  std::vector<std::string_view> words;
  while (!(line = trim(line)).empty()) {
    const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

/// Removes comments, and joins a line that ends in a backslash with the next line. If `anywhere` is
/// true, "#" starts a comment anywhere (Slurm); if not, only at the start of a line (systemd).
[[nodiscard]] inline std::vector<std::string> joined_lines(std::string_view text, bool anywhere) {
  std::vector<std::string> lines;
  bool goes_on = false;
  for (std::string_view line : split(text, '\n')) {
    if (anywhere) line = line.substr(0, line.find('#'));
    line = trim(line);
    if (!anywhere && (line.starts_with('#') || line.starts_with(';'))) continue;
    const bool more = line.ends_with('\\');
    if (more) line.remove_suffix(1);
    if (goes_on)
      lines.back() += " " + std::string(trim(line));
    else
      lines.emplace_back(trim(line));
    goes_on = more;
  }
  return lines;
}

/// Whether nsswitch.conf looks up `database` ("passwd" or "group") in a directory service (sss,
/// ldap). The "systemd" service does not count, because it also uses local files.
[[nodiscard]] inline bool asks_a_directory(std::string_view services, std::string_view database) {
  for (const std::string_view row : split(services, '\n')) {
    const std::string_view line = trim(row.substr(0, row.find('#')));
    if (!line.starts_with(database) || !line.substr(database.size()).starts_with(':')) continue;
    for (const std::string_view word : words_between_blanks(line.substr(database.size() + 1)))
      // "[SUCCESS=merge]" is an action, not a service.
      if (word.front() != '[' && word.find('=') == word.npos && word != "files" &&
          word != "compat" && word != "systemd")
        return true;
  }
  return false;
}

}  // namespace berth::doctor
