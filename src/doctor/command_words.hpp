// Words of a command as a shell sees them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::doctor {

/// The last part of a path.
[[nodiscard]] std::string base_name(std::string_view path);
/// "NAME" of "NAME=value"; "" it is none.
[[nodiscard]] std::string_view assigned_name(std::string_view word);

/// "$NAME", "${NAME}", "${NAME:-other}", "$1" of `given` ("$0" is its first) filled in; nullopt:
/// there is something else in it, whose value nobody knows.
[[nodiscard]] std::optional<std::string> expanded_word(
    std::string_view word, const std::vector<std::string>& given,
    const std::function<std::string(std::string_view)>& variable);

}  // namespace berth::doctor
