#include "serve/settings.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/toml_table.hpp"

namespace berth::serve {
namespace {

using std::chrono::hours;

constexpr std::size_t kMostBytes = 1U << 20U;
constexpr hours kLongest(24 * 3660);

const std::vector<std::string>& modes() {
  static const std::vector<std::string> words{"observe", "warn", "enforce"};
  return words;
}

policy::UserRules rules_in(TomlTable& table, policy::UserRules rules) {
  table.real("weight", rules.weight, 0.001, 1000);
  const auto limit = [&](const char* key, std::optional<int>& into) {
    std::int64_t most = into.value_or(0);
    if (!table.has(key)) return;
    table.number(key, most, 0, 1'000'000);
    into = static_cast<int>(most);
  };
  limit("most_devices", rules.most_devices);
  limit("most_jobs", rules.most_jobs);
  return rules;
}

Error unusable(const std::string& path, const std::string& why, const std::string& hint) {
  return {ErrorCode::kUnavailable, "E0925",
          text("the settings {} cannot be used: {}", printable(path), why), hint};
}

/// Only root may make partitions: run_daemon() refuses this in a user's broker.
void read_mig(TomlTable& table, MigSettings& mig) {
  table.flag("manage", mig.manages);
  table.flag("beside_jobs", mig.beside_jobs);
  if (mig.beside_jobs && !mig.manages) table.check(text("beside_jobs requires manage = true"));
}

void read_rules(TomlTable& top, Settings& settings) {
  int mode = 0;
  top.choice("mode", mode, modes());
  settings.mode = modes()[static_cast<std::size_t>(mode)];
  top.strings("admins", settings.admins);
  top.strings("exempt_users", settings.exempt_users);
  top.strings("exempt_groups", settings.exempt_groups);
  top.duration("half_life", settings.rules.half_life, kLongest);
  top.duration("aging", settings.rules.aging, kLongest);
  if (settings.rules.half_life.count() < 1000)
    top.check(text("half_life: must be at least a second"));
  top.table("everyone",
            [&](TomlTable& table) { settings.everyone = rules_in(table, settings.everyone); });
  top.named_tables("user", [&](const std::string& name, TomlTable& table) {
    settings.users[name] = rules_in(table, settings.everyone);
  });
}

}  // namespace

Result<Settings> parse_settings(std::string_view document, const std::string& origin,
                                Audience audience) {
  constexpr std::size_t kMostTargets = 16;
  Settings settings;
  auto done = TomlTable::read(document, origin, "docs/serve.md", [&](TomlTable& top) {
    if (audience == Audience::kAllUsers) read_rules(top, settings);
    top.duration("keep", settings.keep, kLongest);
    top.size("keep_output", settings.keep_output_bytes);
    top.table("bench", [&](TomlTable& table) {
      table.duration("every", settings.bench_every, kLongest);
      if (table.has("every") && settings.bench_every < hours(1))
        table.check(text("“every” must be at least {}", "1h"));
    });
    top.table("mig", [&](TomlTable& table) { read_mig(table, settings.mig); });
    top.tables("alerts",
               [&](TomlTable& table) { settings.alerts.push_back(read_alert_target(table)); });
    top.named_tables("alert_rule", [&](const std::string& name, TomlTable& table) {
      watch::read_alert_rule(name, table, settings.alert_rules);
    });
    top.table("otlp", [&](TomlTable& table) { settings.otlp = read_otlp(table); });
    if (settings.alerts.size() > kMostTargets)
      top.check(text("more than {} tables [[alerts]]", kMostTargets));
  });
  if (!done) return std::move(done).error();
  tell_apart(settings.alerts);
  return settings;
}

Result<Settings> read_settings(const std::string& path, bool required, Audience audience) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file && errno == ENOENT && !required) return Settings{};
  if (!file) return unusable(path, error_words(errno), "ls -l " + printable(path));
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return unusable(path, text("it is not a file"), "ls -l " + printable(path));
  const bool is_ours = status.st_uid == 0 || status.st_uid == ::geteuid();
  if (!is_ours || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return unusable(path, text("others may write to it"),
                    fmt::format("sudo chown root {0} && sudo chmod 644 {0}", printable(path)));
  const auto document = slurp("/proc/self/fd/" + std::to_string(file.get()), kMostBytes);
  if (!document) return unusable(path, text("it cannot be read"), "ls -l " + printable(path));
  auto settings = parse_settings(*document, printable(path), audience);
  const bool is_readable = (status.st_mode & (S_IRGRP | S_IROTH)) != 0;
  if (settings && is_readable && !settings->otlp.headers.empty())
    return unusable(
        path, text("other users can read this file, and the headers in [otlp] can contain secrets"),
        "sudo chmod 600 " + printable(path));
  if (settings && is_readable &&
      std::any_of(settings->alerts.begin(), settings->alerts.end(),
                  [](const AlertTarget& one) { return !one.webhook.empty(); }))
    return unusable(
        path, text("other users can read this file, and the addresses of webhooks are secrets"),
        "sudo chmod 600 " + printable(path));
  return settings;
}

}  // namespace berth::serve
