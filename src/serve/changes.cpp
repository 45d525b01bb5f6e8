#include "serve/changes.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace berth::serve {
namespace {

using watch::Series;

constexpr std::int64_t kMinute = 60;

bool is_within(std::int64_t time, std::int64_t from, std::int64_t to) {
  return time >= from && time < to;
}

/// The start of the first whole minute of a period, and the end of the last whole minute.
std::pair<std::int64_t, std::int64_t> minutes_in(std::int64_t from, std::int64_t to) {
  const std::int64_t first = (from + kMinute - 1) / kMinute * kMinute;
  return {first, std::max(first, to / kMinute * kMinute)};
}

using Users = std::map<watch::UsageKey, std::optional<double>>;

Users users_in(const std::vector<watch::UsageRow>& rows, const std::string& device,
               std::int64_t from, std::int64_t to) {
  const auto [first, end] = minutes_in(from, to);
  Users users;
  for (const watch::UsageRow& row : rows) {
    if (row.key.device != device || !is_within(row.from, first, end)) continue;
    auto& memory = users[row.key];
    if (row.usage.peak_memory_bytes)
      memory = std::max(memory.value_or(0), *row.usage.peak_memory_bytes);
  }
  return users;
}

bool is_silence(const std::string& what) {
  return what == "lost" || what == "no_answer";
}

/// The last time in a period at which any device has readings; nullopt if no device has readings.
std::optional<std::int64_t> last_record(const Recorded& recorded, std::int64_t from,
                                        std::int64_t to) {
  std::optional<std::int64_t> last;
  for (const watch::DeviceHistory& device : recorded.devices)
    for (auto at = device.moments.rbegin(); at != device.moments.rend(); ++at)
      if (is_within(at->first, from, to)) {
        last = std::max(last.value_or(at->first), at->first);
        break;
      }
  return last;
}

/// Under load, some readings come late, so a few missing readings do not count as silence.
std::optional<Silence> silence_of(const watch::DeviceHistory& device, const Recorded& recorded,
                                  std::int64_t from, std::int64_t to) {
  constexpr std::int64_t kLeastMoments = 5;
  const auto last = last_record(recorded, from, to);
  if (!last) return std::nullopt;
  std::int64_t since = from;
  for (const auto& [time, moment] : device.moments)
    if (is_within(time, from, to)) since = time + device.step;
  if (*last + device.step - since < kLeastMoments * device.step) return std::nullopt;
  Silence silence{since, ""};
  for (const watch::ConditionRow& row : recorded.conditions)
    if (row.device == device.key && is_silence(row.what) && row.from + kMinute > since &&
        row.from <= *last)
      silence.reason = row.what;
  return silence;
}

/// How many seconds were recorded in the whole minutes of a period. The seconds in which the device
/// was recorded as lost count too, although it had no readings then.
double recorded_in(const watch::DeviceHistory& device, const Recorded& recorded, std::int64_t from,
                   std::int64_t to) {
  const auto [first, end] = minutes_in(from, to);
  double seconds = 0;
  for (const auto& [time, moment] : device.moments)
    if (is_within(time, first, end)) seconds += static_cast<double>(device.step);
  for (const watch::ConditionRow& row : recorded.conditions)
    if (row.device == device.key && is_silence(row.what) && is_within(row.from, first, end))
      seconds += row.amount;
  return std::min(seconds, static_cast<double>(end - first));
}

std::vector<ProcessChange> processes_between(const Recorded& recorded, const std::string& device,
                                             const Windows& windows) {
  const Users before = users_in(recorded.usage, device, windows.before_from, windows.before_to);
  const Users after = users_in(recorded.usage, device, windows.after_from, windows.after_to);
  std::vector<ProcessChange> changes;
  for (const auto& [key, memory] : before)
    if (!after.contains(key)) changes.push_back({key, false, memory});
  for (const auto& [key, memory] : after)
    if (!before.contains(key)) changes.push_back({key, true, memory});
  return changes;
}

std::vector<ConditionChange> conditions_between(const Recorded& recorded,
                                                const DeviceChanges& device,
                                                const Windows& windows) {
  std::map<std::string, std::pair<double, double>> found;
  const auto [before_from, before_to] = minutes_in(windows.before_from, windows.before_to);
  const auto [after_from, after_to] = minutes_in(windows.after_from, windows.after_to);
  for (const watch::ConditionRow& row : recorded.conditions) {
    if (row.device != device.key) continue;
    const bool is_before = is_within(row.from, before_from, before_to);
    const bool is_after = is_within(row.from, after_from, after_to);
    if (!is_before && !is_after) continue;
    auto& [before, after] = found[row.what];
    if (is_before) before += row.amount;
    if (is_after) after += row.amount;
  }
  // Seconds of conditions are converted to seconds per minute, because the periods may differ in
  // length.
  const auto known = [](const std::string& what, double amount,
                        double seconds) -> std::optional<double> {
    if (!is_enough(seconds)) return std::nullopt;
    return what.starts_with("xid:") ? amount : std::min(amount / seconds, 1.0) * kMinute;
  };
  std::vector<ConditionChange> changes;
  for (const auto& [what, amounts] : found)
    changes.push_back({what, known(what, amounts.first, device.recorded_before),
                       known(what, amounts.second, device.recorded_after)});
  return changes;
}

}  // namespace

std::int64_t whole_minutes(std::int64_t from, std::int64_t to) {
  const auto [first, end] = minutes_in(from, to);
  return (end - first) / kMinute;
}

bool is_notable(Series series, const std::optional<double>& before,
                const std::optional<double>& after) {
  if (before.has_value() != after.has_value()) return true;
  if (!before) return false;
  const double difference = std::abs(*after - *before), most = std::max(*after, *before);
  switch (series) {
    case Series::kUtilization:
    case Series::kMemoryUtilization:
      return difference >= 10;
    case Series::kMemoryUsed:
      return difference >= 256.0 * 1024 * 1024;
    case Series::kTemperature:
      return difference >= 5;
    case Series::kPower:
      return difference >= 10'000 && difference >= 0.1 * most;
    case Series::kClockSm:
      return difference >= 0.05 * most;
  }
  return false;
}

std::vector<DeviceChanges> changes_between(const Recorded& recorded, const Windows& windows) {
  std::vector<DeviceChanges> all;
  for (const watch::DeviceHistory& device : recorded.devices) {
    watch::Mean before, after;
    for (const auto& [time, moment] : device.moments) {
      if (is_within(time, windows.before_from, windows.before_to)) before.add(moment);
      if (is_within(time, windows.after_from, windows.after_to)) after.add(moment);
    }
    DeviceChanges& changes = all.emplace_back();
    changes.key = device.key;
    changes.name = device.name;
    changes.index = device.index;
    if (!before.empty()) changes.before = before.take();
    if (!after.empty()) changes.after = after.take();
    if (!device.moments.empty()) {
      changes.silent_before = silence_of(device, recorded, windows.before_from, windows.before_to);
      changes.silent_after = silence_of(device, recorded, windows.after_from, windows.after_to);
    }
    changes.recorded_before = recorded_in(device, recorded, windows.before_from, windows.before_to);
    changes.recorded_after = recorded_in(device, recorded, windows.after_from, windows.after_to);
    changes.conditions = conditions_between(recorded, changes, windows);
    if (is_enough(changes.recorded_before) && is_enough(changes.recorded_after))
      changes.processes = processes_between(recorded, device.key, windows);
  }
  return all;
}

}  // namespace berth::serve
