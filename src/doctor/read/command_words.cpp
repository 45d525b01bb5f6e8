#include "doctor/read/command_words.hpp"

#include <algorithm>
#include <cerrno>

#include "base/error_words.hpp"
#include "base/shell_word.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::doctor {
namespace {

bool is_name_letter(char c) {
  return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/// `word` starts after a "$". Moves the variable's name from its start to `name`. `other` becomes
/// the text after ":-", which replaces an empty variable. Returns false if `name` is not a plain
/// name.
bool take_name(std::string_view& word, std::string_view& name, std::string_view& other) {
  if (!word.starts_with('{')) {
    std::size_t end = 0;
    while (end < word.size() && is_name_letter(word[end])) ++end;
    name = word.substr(0, end);
    word.remove_prefix(end);
  } else {
    const std::size_t end = word.find('}');
    if (end == std::string_view::npos) return false;
    name = word.substr(1, end - 1);
    word.remove_prefix(end + 1);
    if (const std::size_t colon = name.find(":-"); colon != std::string_view::npos) {
      other = name.substr(colon + 2);
      name = name.substr(0, colon);
    }
  }
  return !name.empty() && std::all_of(name.begin(), name.end(), is_name_letter);
}

}  // namespace

std::string base_name(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

std::string_view assigned_name(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0 || (word[0] >= '0' && word[0] <= '9'))
    return "";
  const std::string_view name = word.substr(0, equals);
  return std::all_of(name.begin(), name.end(), is_name_letter) ? name : "";
}

bool names_any(std::string_view word, const std::set<std::string>& names) {
  for (std::size_t at = word.find('$'); at != std::string_view::npos; at = word.find('$', at + 1)) {
    std::string_view rest = word.substr(at + 1), name, other;
    if (take_name(rest, name, other) && names.contains(std::string(name))) return true;
  }
  return false;
}

std::optional<std::string> expanded_word(
    std::string_view word, const std::vector<std::string>& given,
    const std::function<std::string(std::string_view)>& variable) {
  std::string out;
  while (!word.empty()) {
    const std::size_t dollar = word.find('$');
    out += word.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    word.remove_prefix(dollar + 1);
    std::string_view name, other;
    if (!take_name(word, name, other)) return std::nullopt;
    std::string value;
    if (const auto number = to_number(name)) {
      if (*number >= 0 && static_cast<std::size_t>(*number) < given.size())
        value = given[static_cast<std::size_t>(*number)];
    } else {
      value = variable(name);
    }
    out += value.empty() ? std::string(other) : value;
  }
  return out;
}

Error no_version(const std::string& shim, const std::string& other) {
  return {ErrorCode::kInvalidArgument, "E0823",
          text("none of the versions that pyenv selects here has {}", printable(base_name(shim))),
          other.empty() ? "pyenv versions" : "export PYENV_VERSION=" + shell_word(other)};
}

Error no_command(const std::string& word, bool is_there, bool is_folder) {
  const std::string shown = printable(word);
  if (is_folder)
    return {ErrorCode::kInvalidArgument, "E0823",
            text("cannot execute {}: {}", shown, error_words(EISDIR)), "ls " + shell_word(shown)};
  const bool is_script = word.ends_with(".py") && is_there;
  if (word.find('/') != std::string::npos && is_there)
    return {ErrorCode::kInvalidArgument, "E0823",
            text("cannot execute {}: {}", shown, error_words(EACCES)),
            is_script ? "berth doctor -- python " + shell_word(shown)
                      : "chmod +x " + shell_word(shown)};
  return {
      ErrorCode::kInvalidArgument, "E0823", text("there is no command {}", shown),
      is_script ? "berth doctor -- python " + shown : "command -v " + shown + "; echo \"$PATH\""};
}

}  // namespace berth::doctor
