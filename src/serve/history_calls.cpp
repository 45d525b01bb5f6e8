#include "serve/history_calls.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <string_view>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "serve/refusal.hpp"

namespace berth::serve {
namespace {

using Query = std::map<std::string, std::string>;

constexpr std::int64_t kUsualPoints = 400, kMostPoints = 1500;

Status check_keys(const Query& query, const std::set<std::string_view>& known) {
  for (const auto& [key, value] : query)
    if (!known.contains(key))
      return Error{ErrorCode::kInvalidArgument, "E0919", text("there is no key {}", printable(key)),
                   ""};
  return Done{};
}

/// Reads a duration of the query in whole seconds, at least 1. nullopt: the query does not have
/// this key.
Result<std::optional<std::int64_t>> seconds_in(const Query& query, const char* key) {
  const auto found = query.find(key);
  if (found == query.end()) return std::optional<std::int64_t>();
  const auto duration = parse_duration(found->second);
  if (!duration) return Error(duration.error()).during(key);
  return std::optional<std::int64_t>(
      std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(*duration).count()));
}

std::int64_t usual_step(std::int64_t length) {
  for (const std::int64_t step : {1, 10, 30, 60, 300, 600, 1800, 3600, 10'800, 21'600})
    if (length / step <= kUsualPoints) return step;
  return watch::kDay;
}

std::vector<std::string> devices_in(const Query& query) {
  std::vector<std::string> names;
  if (const auto found = query.find("device"); found != query.end())
    for (const std::string_view one : split(found->second, ',')) names.emplace_back(one);
  return names;
}

/// Read one device at a time: before averaging, the minutes of 92 days take 27 MB per device.
std::vector<watch::DeviceHistory> read(const watch::HistoryReader& reader, const Period& period,
                                       const std::vector<std::string>& names) {
  std::vector<watch::DeviceHistory> devices =
      reader.devices({period.to, period.to, period.step, names});
  for (watch::DeviceHistory& device : devices)
    for (watch::DeviceHistory& found :
         reader.devices({period.from, period.to, period.step, {device.key}})) {
      if (found.key != device.key) continue;
      device.step = std::max(period.step, found.step);
      device.moments = in_steps(found, device.step);
    }
  return devices;
}

}  // namespace

Result<Period> period_of(const Query& query, std::int64_t now) {
  const auto since = seconds_in(query, "since");
  if (!since) return since.error();
  const auto step = seconds_in(query, "step");
  if (!step) return step.error();
  const std::int64_t length = std::min(since->value_or(3600), 366 * watch::kDay);
  const std::int64_t least = (length + kMostPoints - 1) / kMostPoints;
  return Period{now + 1 - length, now + 1, std::max(step->value_or(usual_step(length)), least)};
}

Reply history_reply(const std::string& file, const Call& call, std::int64_t now) {
  if (auto known = check_keys(call.query, {"since", "step", "device"}); !known)
    return refusal(known.error());
  const auto period = period_of(call.query, now);
  if (!period) return refusal(period.error());
  const auto reader = watch::HistoryReader::open(file);
  if (!reader) return refusal(reader.error());
  return {200, history_json(read(*reader, *period, devices_in(call.query)), *period)};
}

Reply usage_reply(const std::string& file, const Call& call, std::int64_t now,
                  const std::optional<std::string>& only) {
  if (auto known = check_keys(call.query, {"since", "by"}); !known) return refusal(known.error());
  const auto given = call.query.find("by");
  const std::string by = given == call.query.end() ? "user" : given->second;
  if (by != "user" && by != "job" && by != "command")
    return refusal({ErrorCode::kInvalidArgument, "E0919",
                    text("'by' is user, job or command, not '{}'", printable(by)), ""});
  const auto period = period_of(call.query, now);
  if (!period) return refusal(period.error());
  const auto reader = watch::HistoryReader::open(file);
  if (!reader) return refusal(reader.error());
  const auto sums = usage_sums(
      reader->usage(period->from, period->to), by,
      [&](const watch::UsageRow& row) { return by == "user" || !only || row.key.user == *only; });
  return {200, usage_json(sums, by, *period)};
}

}  // namespace berth::serve
