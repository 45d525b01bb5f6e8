// Settings: what /etc/berth/berth.toml says to the broker of all users (docs/serve.md). Without the
// file, and for what it leaves out, these defaults.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "policy/queue.hpp"

namespace berth::serve {

struct Settings {
  std::string mode = "observe";     // "observe", "warn", "enforce": of processes without a lease
  std::vector<std::string> admins;  // groups whose members may do what root may
  std::vector<std::string> exempt_users, exempt_groups;  // from mode
  policy::QueueRules rules;
  std::chrono::milliseconds keep = std::chrono::hours(7 * 24);  // jobs that ended, and their output
  std::uint64_t keep_output_bytes = std::uint64_t{10} << 30U;   // of all; the oldest go first
  policy::UserRules everyone;
  std::map<std::string, policy::UserRules> users;  // by name, in place of everyone's
};

inline constexpr const char* kSettingsFile = "/etc/berth/berth.toml";

/// Fails as TomlTable::read.
[[nodiscard]] Result<Settings> parse_settings(std::string_view document, const std::string& origin);
/// No file: the defaults, where it is not required. Fails also with kUnavailable (E0925: it cannot
/// be read, or others than root may write it).
[[nodiscard]] Result<Settings> read_settings(const std::string& path, bool required);

}  // namespace berth::serve
