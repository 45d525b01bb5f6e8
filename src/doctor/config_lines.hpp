// Lines and words of files of settings, as their readers and whoever tells of them have to see
// alike.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"

namespace berth::doctor {

/// Words between blanks and tabs.
[[nodiscard]] inline std::vector<std::string_view> words_between_blanks(std::string_view line) {
  std::vector<std::string_view> words;
  while (!(line = trim(line)).empty()) {
    const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

/// Lines without comments, those that end in a backslash with what follows them. `anywhere`: a "#"
/// begins a comment wherever it stands (Slurm), else at the begin of a line alone (systemd).
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

/// By nsswitch.conf: who is in "passwd" or "group" is asked of more than files, of a directory
/// (sss, ldap) say. What systemd adds are files of its own.
[[nodiscard]] inline bool asks_a_directory(std::string_view services, std::string_view database) {
  for (const std::string_view row : split(services, '\n')) {
    const std::string_view line = trim(row.substr(0, row.find('#')));
    if (!line.starts_with(database) || !line.substr(database.size()).starts_with(':')) continue;
    for (const std::string_view word : words_between_blanks(line.substr(database.size() + 1)))
      // "[SUCCESS=merge]" is no service.
      if (word.front() != '[' && word.find('=') == word.npos && word != "files" &&
          word != "compat" && word != "systemd")
        return true;
  }
  return false;
}

}  // namespace berth::doctor
