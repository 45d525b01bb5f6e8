#include "watch/alert_rules.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <initializer_list>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "model/busy.hpp"
#include "model/device_use.hpp"
#include "watch/health.hpp"

namespace berth::watch {
namespace {

using model::Device;
using Kind = AlertRule::Kind;

constexpr auto kSeverities = std::to_array<const char*>({"info", "warning", "critical"});
// not a reading, but computed from two readings
constexpr std::string_view kMemoryPercent = "memory_used_percent";
constexpr std::size_t kMostRules = 64, kMostName = 40, kMostWords = 200;
constexpr double kHighest = 1e18;
// The default of `seconds` for rules in the settings. With 0, a reading near the limit could begin
// and end an alert with every frame.
constexpr double kOwnSeconds = 10;

std::optional<bool> is_slowed_by(const Device& device,
                                 std::initializer_list<std::string_view> reasons) {
  if (!answers(device)) return std::nullopt;
  return std::any_of(reasons.begin(), reasons.end(), [&](std::string_view reason) {
    const auto& all = device.throttle_reasons;
    return std::find(all.begin(), all.end(), reason) != all.end();
  });
}

std::optional<double> reading_of(const Device& device, std::string_view name) {
  const model::DeviceReadings& readings = device.readings;
  if (name == kMemoryPercent) {
    const auto& used = readings.memory_used_bytes;
    const auto& total = readings.memory_total_bytes;
    if (!used || !total || *total == 0) return std::nullopt;
    return 100 * static_cast<double>(*used) / static_cast<double>(*total);
  }
  std::optional<double> value;
  model::for_each_reading(readings, [&](std::string_view one, const auto& reading) {
    if (one == name && reading) value = static_cast<double>(*reading);
  });
  return value;
}

std::vector<std::string> names_of_readings() {
  std::vector<std::string> names{std::string(kMemoryPercent)};
  const model::DeviceReadings none;
  model::for_each_reading(none,
                          [&](std::string_view one, const auto&) { names.emplace_back(one); });
  return names;
}

AlertRule state(const char* name, const char* severity, double seconds, AlertRule::State holds,
                const char* message) {
  AlertRule rule;
  rule.name = name;
  rule.kind = Kind::kState;
  rule.severity = severity;
  rule.seconds = seconds;
  rule.holds = holds;
  rule.message = message;
  return rule;
}

AlertRule limit(const char* name, const char* severity, double seconds, std::string_view reading,
                double limit, double end, const char* message) {
  AlertRule rule;
  rule.name = name;
  rule.severity = severity;
  rule.seconds = seconds;
  rule.reading = reading;
  rule.limit = limit;
  rule.end = end;
  rule.message = message;
  return rule;
}

/// Whether the name is that of an Xid's rule: "xid_79", but neither "xid_" nor "xid_079".
bool is_xid(std::string_view name) {
  if (!name.starts_with(kXidRule)) return false;
  const std::string_view digits = name.substr(kXidRule.size());
  const auto code = to_number(digits);
  return code && *code >= 0 && *code < 100'000 && std::to_string(*code) == digits;
}

bool is_name(std::string_view name) {
  const auto is_sound = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && name.size() <= kMostName &&
         std::all_of(name.begin(), name.end(), is_sound);
}

void read_limit(TomlTable& table, AlertRule& rule, bool is_new) {
  const bool is_above = table.has("above"), is_below = table.has("below");
  if (is_above && is_below) table.check(text("'above' and 'below' exclude each other"));
  if (is_new && !is_above && !is_below) table.check(text("'above' or 'below' is missing"));
  const double gap = rule.end - rule.limit;
  const bool was_below = rule.is_below;
  table.real("above", rule.limit, -kHighest, kHighest);
  table.real("below", rule.limit, -kHighest, kHighest);
  if (is_above || is_below) {
    rule.is_below = is_below;
    const bool is_turned = rule.is_below != was_below;
    rule.end = rule.limit + (is_turned ? 0 : gap);
    // The built-in message fits only the built-in direction (above or below).
    if (is_turned) rule.message = nullptr;
  }
  table.real("ends", rule.end, -kHighest, kHighest);
  if (rule.is_below ? rule.end < rule.limit : rule.end > rule.limit)
    table.check(rule.is_below ? text("ends: must be at least 'below'")
                              : text("ends: must be at most 'above'"));
}

}  // namespace

std::optional<bool> AlertRule::is_broken_by(const Device& device, const model::Snapshot& snapshot,
                                            bool is_active) const {
  if (kind == Kind::kState) return holds(device, snapshot);
  const auto value = reading_of(device, reading);
  if (!value) return std::nullopt;
  const double line = is_active ? end : limit;
  return is_below ? *value < line : *value > line;
}

std::string AlertRule::sentence(int index) const {
  if (!words.empty()) return text("GPU {}: {}", index, words);
  if (message != nullptr) return text(message, index);
  return is_below ? text("GPU {}: {} is below {}", index, reading, limit)
                  : text("GPU {}: {} is above {}", index, reading, limit);
}

std::string AlertRule::condition() const {
  switch (kind) {
    case Kind::kState:
      return text(message, "N");
    case Kind::kIdle:
      return text("a user holds {} or more without using the GPU", show_bytes(bytes));
    case Kind::kGrowth:
    case Kind::kHang:
    case Kind::kMachine:
      return std::string(tr(words_of_kind));
    case Kind::kXid:
      return text("NVIDIA's driver reports Xid {}", name.substr(kXidRule.size()));
    case Kind::kReading:
      break;
  }
  if (limit == end)
    return is_below ? text("{} below {}", reading, limit) : text("{} above {}", reading, limit);
  return is_below ? text("{} below {}, ends at {}", reading, limit, end)
                  : text("{} above {}, ends at {}", reading, limit, end);
}

AlertRules built_in_alert_rules() {
  AlertRules rules = {
      state(
          "device_down", "critical", kDownSeconds,
          [](const Device& device, const model::Snapshot&) -> std::optional<bool> {
            return !answers(device);
          },
          msgid("GPU {} is lost or does not answer")),
      limit("memory_errors", "critical", 0, "ecc_uncorrected", 0, 0,
            msgid("GPU {} has uncorrected memory errors")),
      limit("row_remap_failed", "critical", 0, "remap_failed", 0, 0,
            msgid("GPU {} could not remap a memory row")),
      limit("row_remap_pending", "warning", 60, "remap_pending", 0, 0,
            msgid("GPU {} waits for a reset to remap a memory row")),
      state(
          "throttled_by_heat", "warning", 60,
          [](const Device& device, const model::Snapshot&) {
            return is_slowed_by(device, {"hw_thermal", "sw_thermal"});
          },
          msgid("GPU {} is slowed down by heat")),
      state(
          "power_brake", "warning", 10,
          [](const Device& device, const model::Snapshot&) {
            return is_slowed_by(device, {"hw_power_brake"});
          },
          msgid("GPU {} is slowed down by the power supply")),
      limit("hot", "warning", 60, "temperature_celsius", kTooHot, kTooHot - 5,
            msgid("GPU {} is too hot")),
      limit("memory_full", "info", 900, kMemoryPercent, 97, 93,
            msgid("the memory of GPU {} is nearly full")),
      state(
          "memory_without_process", "info", 900,
          [](const Device& device, const model::Snapshot& snapshot) -> std::optional<bool> {
            if (!device.readings.memory_used_bytes || model::users_unknown(device))
              return std::nullopt;
            return model::has_unseen_users(device, snapshot);
          },
          msgid("memory of GPU {} is in use, but no process holds it")),
  };
  const auto add = [&](const char* name, Kind kind, const char* severity, double seconds,
                       const char* condition) {
    AlertRule& rule = rules.emplace_back();
    rule.name = name;
    rule.kind = kind;
    rule.severity = severity;
    rule.seconds = seconds;
    rule.words_of_kind = condition;
  };
  add("job_memory_grows", Kind::kGrowth, "info", 3600,
      msgid("the memory of a job grows and fills its GPU within four hours"));
  add("job_hangs", Kind::kHang, "warning", 1800,
      msgid("a job has stopped using its GPUs, or its ranks hang"));
  add("queue_waits", Kind::kMachine, "info", 3600, msgid("a job waits in the queue"));
  add("sampler_stale", Kind::kMachine, "warning", 30,
      msgid("the broker gets no readings of the devices"));
  AlertRule& idle = rules.emplace_back();
  idle.name = "idle_while_holding_memory";
  idle.kind = Kind::kIdle;
  idle.severity = "info";
  idle.seconds = 3600;
  idle.bytes = std::uint64_t{1} << 30U;
  return rules;
}

const AlertRule* find_rule(const AlertRules& rules, std::string_view name) {
  const auto found = std::find_if(rules.begin(), rules.end(),
                                  [&](const AlertRule& one) { return one.name == name; });
  return found == rules.end() ? nullptr : &*found;
}

void read_alert_rule(const std::string& name, TomlTable& table, AlertRules& rules) {
  const AlertRule* known = find_rule(rules, name);
  AlertRule rule = known == nullptr ? AlertRule{} : *known;
  rule.name = printable(name);
  rule.is_changed = true;
  if (known == nullptr && name.starts_with(kXidRule)) rule.kind = Kind::kXid;
  if (known == nullptr && rule.kind != Kind::kXid) rule.seconds = kOwnSeconds;
  if (!is_name(name) || (rule.kind == Kind::kXid && !is_xid(name)))
    table.check(text(
        "the name '{}' must consist of lower-case letters, digits and _, or be xid_ and a number",
        rule.name));
  const auto before = std::find(kSeverities.begin(), kSeverities.end(), rule.severity);
  int severity = static_cast<int>(before - kSeverities.begin());
  table.choice("severity", severity, {kSeverities.begin(), kSeverities.end()});
  // If the settings give no severity for an Xid, leave it empty: Berth's catalogue of Xids then
  // decides.
  rule.severity = rule.kind == Kind::kXid && !table.has("severity")
                      ? ""
                      : kSeverities.at(static_cast<std::size_t>(severity));
  table.flag("enabled", rule.is_on);
  if (rule.kind != Kind::kXid) {
    auto least = std::chrono::milliseconds(static_cast<std::int64_t>(rule.seconds * 1000));
    table.duration("for", least, std::chrono::hours(24 * 31));
    rule.seconds = static_cast<double>(least.count()) / 1000;
  }
  if (rule.kind == Kind::kIdle) table.size("memory", rule.bytes);
  if (rule.kind == Kind::kReading) {
    if (known == nullptr) {
      table.string("reading", rule.reading, true);
      const auto names = names_of_readings();
      if (!rule.reading.empty() &&
          std::find(names.begin(), names.end(), rule.reading) == names.end())
        table.check(text("reading: '{}' is not known; possible: {}", rule.reading,
                         fmt::format("{}", fmt::join(names, ", "))));
      table.string("message", rule.words, false, kMostWords);
    }
    read_limit(table, rule, known == nullptr);
  }
  if (known == nullptr && rules.size() >= kMostRules)
    table.check(text("more than {} alert rules", kMostRules));
  if (!table.is_sound()) return;
  if (known == nullptr)
    rules.push_back(std::move(rule));
  else
    rules[static_cast<std::size_t>(known - rules.data())] = std::move(rule);
}

}  // namespace berth::watch
