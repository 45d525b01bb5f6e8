// The one place that reads our own environment: getenv is not thread-safe, so it is called here
// only, before threads start.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace berth {

/// The value of a variable; nullopt where it is not set.
[[nodiscard]] std::optional<std::string> env(const char* name);
/// As env(), but an empty value counts as not set.
[[nodiscard]] std::optional<std::string> env_nonempty(const char* name);
/// All of it: what a job would inherit. Entries without a name or without "=" are left out.
[[nodiscard]] std::map<std::string, std::string> whole_environment();

}  // namespace berth
