// What changed on the devices between two periods of the history: readings, conditions, and who
// used them. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "watch/history.hpp"

namespace berth::serve {

/// A period before a time and a period after it, in Unix seconds. The end of each period does not
/// belong to it.
struct Windows {
  std::int64_t before_from = 0, before_to = 0, after_from = 0, after_to = 0;
};

struct ConditionChange {
  std::string what;  // such as "throttle:hw_thermal", "lost", "xid:79"
  /// For a condition: the seconds per minute during which it held, averaged over the period. For an
  /// Xid: how often it occurred in the whole period. nullopt: not known.
  std::optional<double> before, after;
};
struct ProcessChange {
  watch::UsageKey key;
  bool is_new = false;  // true: it began; false: it ended
  std::optional<double> memory_bytes;
};

/// A device without readings at the end of a period, while other devices have some.
struct Silence {
  std::int64_t since = 0;  // Unix seconds; if it had no reading in the period: the period's start
  std::string reason;      // "lost" or "no_answer"; "" if it is not known
  bool operator==(const Silence&) const = default;
};

struct DeviceChanges {
  std::string key, name;
  int index = -1;
  /// nullopt: the device has readings at the end of the period, or has never had any readings.
  std::optional<Silence> silent_before, silent_after;
  watch::Moment before, after;  // means
  /// How many seconds of the whole minutes before and after were recorded. Conditions and processes
  /// are computed from these seconds; if they are less than a minute, both are unknown.
  double recorded_before = 0, recorded_after = 0;
  std::vector<ConditionChange> conditions;
  std::vector<ProcessChange> processes;  // processes that are new or have ended
};

/// Whether a device has readings at the end of one period, and none at the end of the other.
[[nodiscard]] inline bool has_other_state(const DeviceChanges& device) {
  return device.silent_before.has_value() != device.silent_after.has_value();
}
/// Whether the difference between two readings is worth a person's attention.
[[nodiscard]] bool is_notable(watch::Series series, const std::optional<double>& before,
                              const std::optional<double>& after);

struct Recorded {
  std::vector<watch::DeviceHistory> devices;
  std::vector<watch::UsageRow> usage;
  std::vector<watch::ConditionRow> conditions;
};
/// The number of whole minutes in a period. Usage is recorded by minute. So if this is 0, neither
/// conditions nor processes are known for the period.
[[nodiscard]] std::int64_t whole_minutes(std::int64_t from, std::int64_t to);
[[nodiscard]] inline bool is_enough(double recorded_seconds) {
  return recorded_seconds >= 60;
}
[[nodiscard]] std::vector<DeviceChanges> changes_between(const Recorded& recorded,
                                                         const Windows& windows);

}  // namespace berth::serve
