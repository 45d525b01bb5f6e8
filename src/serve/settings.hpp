// Settings: the system broker's /etc/berth/berth.toml, or the file of --config (docs/serve.md).
// Missing settings, or a missing file, mean these defaults.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "policy/queue.hpp"
#include "serve/alert_message.hpp"
#include "serve/otlp.hpp"
#include "serve/partitions.hpp"

namespace berth::serve {

struct Settings {
  std::string mode = "observe";     // "observe", "warn", "enforce": for foreign processes
  std::vector<std::string> admins;  // groups whose members may do what root may
  std::vector<std::string> exempt_users, exempt_groups;  // exempt from `mode`
  policy::QueueRules rules;
  std::chrono::milliseconds keep = std::chrono::hours(7 * 24);  // ended jobs and their output
  std::uint64_t keep_output_bytes = std::uint64_t{10}
                                    << 30U;  // in total; the oldest are deleted first
  policy::UserRules everyone;
  std::map<std::string, policy::UserRules> users;  // rules of users by name, instead of `everyone`
  std::chrono::milliseconds bench_every{0};        // measure idle devices this often; 0: never
  MigSettings mig;
  std::vector<AlertTarget> alerts;
  OtlpOptions otlp;
  watch::AlertRules alert_rules = watch::built_in_alert_rules();
};

inline constexpr const char* kSettingsFile = "/etc/berth/berth.toml";

/// Whose broker reads the settings. Most settings are only for the broker that serves all users.
enum class Audience : unsigned char { kAllUsers, kOneUser };

/// Returns the errors of TomlTable::read.
[[nodiscard]] Result<Settings> parse_settings(std::string_view document, const std::string& origin,
                                              Audience audience = Audience::kAllUsers);
/// A missing file means the defaults, unless it is required. Also fails with kUnavailable (E0925:
/// it cannot be read, or other users can write it, or read the webhooks in it).
[[nodiscard]] Result<Settings> read_settings(const std::string& path, bool required,
                                             Audience audience = Audience::kAllUsers);

}  // namespace berth::serve
