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
  /// "observe", "warn" or "enforce": what to do about foreign processes.
  std::string mode = "observe";
  std::vector<std::string> admins;  // groups whose members may do what root may
  std::vector<std::string> exempt_users, exempt_groups;  // not affected by `mode`
  policy::QueueRules rules;
  /// How long ended jobs and their output are kept.
  std::chrono::milliseconds keep = std::chrono::hours(7 * 24);
  /// The maximum size of the output of all ended jobs together. The oldest output is deleted first.
  std::uint64_t keep_output_bytes = std::uint64_t{10} << 30U;
  policy::UserRules everyone;
  /// Rules for some users, by name; `everyone` is for the others.
  std::map<std::string, policy::UserRules> users;
  std::chrono::milliseconds bench_every{0};  // measure idle devices this often; 0: never
  MigSettings mig;
  std::vector<AlertTarget> alerts;
  OtlpOptions otlp;
  watch::AlertRules alert_rules = watch::built_in_alert_rules();
};

inline constexpr const char* kSettingsFile = "/etc/berth/berth.toml";

/// Whose broker reads the settings. Most settings are only for the broker that serves all users.
enum class Audience : unsigned char { kAllUsers, kOneUser };

/// Parses a settings file. Fails with the errors of TomlTable::read().
[[nodiscard]] Result<Settings> parse_settings(std::string_view document, const std::string& origin,
                                              Audience audience = Audience::kAllUsers);
/// Returns the defaults if the file is missing and not required. Also fails with kUnavailable
/// (E0925: the file cannot be read, or other users can write it, or read the webhooks in it).
[[nodiscard]] Result<Settings> read_settings(const std::string& path, bool required,
                                             Audience audience = Audience::kAllUsers);

}  // namespace berth::serve
