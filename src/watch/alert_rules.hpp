// The rules for alerts: the built-in rules, changed and extended by the tables [alert_rule.NAME] of
// the settings (docs/watch.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/toml_table.hpp"
#include "model/snapshot.hpp"

namespace berth::watch {

/// How many seconds a device may be missing before it counts as down.
inline constexpr double kDownSeconds = 1;

struct AlertRule {
  enum class Kind : unsigned char {
    kState,    // the function `holds` decides for each device
    kReading,  // a reading is above or below a limit
    kIdle,     // a user has at least `bytes` of a device's memory but does not compute on it
    kXid,      // changes the severity of one Xid, or switches it off
    kMachine,  // the queue or the sampler has a problem for `seconds`
    kGrowth,   // the memory of a job grows and will fill the device
    kHang,     // a job has used a device before, and uses none now
  };
  using State = std::optional<bool> (*)(const model::Device& device,
                                        const model::Snapshot& snapshot);

  std::string name;
  Kind kind = Kind::kReading;
  std::string severity = "warning";
  double seconds = 0;  // how long the condition must hold before the alert begins
  State holds = nullptr;
  std::string reading;    // name of a reading in for_each_reading(), or memory_used_percent
  bool is_below = false;  // true: alert if the reading is below the limit; false: above
  double limit = 0, end = 0;
  std::uint64_t bytes = 0;
  const char* words_of_kind = "";  // msgid of the condition, for rules about a machine or a job
  const char* message = nullptr;   // msgid with {} for the device's index; nullptr: use `words`
  std::string words;  // message from the settings; "": made from the reading and the limit
  bool is_on = true;
  bool is_changed = false;  // the settings have changed this rule

  [[nodiscard]] bool is_of_device() const { return kind == Kind::kState || kind == Kind::kReading; }
  /// Whether the rule's condition holds. nullopt if it is not known now: the alert then neither
  /// begins nor ends.
  [[nodiscard]] std::optional<bool> is_broken_by(const model::Device& device,
                                                 const model::Snapshot& snapshot,
                                                 bool is_active) const;
  [[nodiscard]] std::string sentence(int index) const;
  /// Describes the condition for people: "temperature_celsius above 90, ends at 85".
  [[nodiscard]] std::string condition() const;
};

using AlertRules = std::vector<AlertRule>;

[[nodiscard]] AlertRules built_in_alert_rules();
/// Reads the table [alert_rule.NAME] of the settings. Errors are recorded in `table`.
void read_alert_rule(const std::string& name, TomlTable& table, AlertRules& rules);
[[nodiscard]] const AlertRule* find_rule(const AlertRules& rules, std::string_view name);
/// Prefix of the names of Xid rules, such as "xid_79".
inline constexpr std::string_view kXidRule = "xid_";

}  // namespace berth::watch
