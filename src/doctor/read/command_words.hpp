// Parses words of a shell command.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth::doctor {

template <typename Names>
[[nodiscard]] bool is_in(std::string_view word, const Names& names) {
  return std::find(std::begin(names), std::end(names), word) != std::end(names);
}
[[nodiscard]] inline bool is_in(std::string_view word,
                                std::initializer_list<std::string_view> names) {
  return is_in<>(word, names);
}

/// The last component of a path.
[[nodiscard]] std::string base_name(std::string_view path);
/// The name in an assignment: "NAME" of "NAME=value"; "" if it is not an assignment.
[[nodiscard]] std::string_view assigned_name(std::string_view word);

/// Replaces "$NAME", "${NAME}" and "${NAME:-other}". "$1" becomes the second word of `given`, "$0"
/// the first. Returns nullopt if the word contains other expansions, whose value is unknown.
[[nodiscard]] std::optional<std::string> expanded_word(
    std::string_view word, const std::vector<std::string>& given,
    const std::function<std::string(std::string_view)>& variable);

/// Whether the word contains "$NAME" for a NAME in `names`.
[[nodiscard]] bool names_any(std::string_view word, const std::set<std::string>& names);

/// E0823: there is no executable with this name. `is_there`: a file with this name exists;
/// `is_folder`: a folder exists.
[[nodiscard]] Error no_command(const std::string& word, bool is_there, bool is_folder);

/// E0823: none of the versions that pyenv selects has the shim's program; `other` is a version that
/// has it.
[[nodiscard]] Error no_version(const std::string& shim, const std::string& other);

}  // namespace berth::doctor
