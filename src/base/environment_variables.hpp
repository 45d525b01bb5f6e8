// The only place that reads this program's environment. getenv() is not thread-safe, so these
// functions are called before threads start.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace berth {

/// The value of a variable; nullopt if it is not set.
[[nodiscard]] std::optional<std::string> env(const char* name);
/// Like env(), but an empty value counts as not set.
[[nodiscard]] std::optional<std::string> env_nonempty(const char* name);
/// The whole environment, as a job would inherit it. Skips entries without a name or without "=".
[[nodiscard]] std::map<std::string, std::string> whole_environment();

}  // namespace berth
