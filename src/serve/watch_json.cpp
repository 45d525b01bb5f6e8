#include "serve/watch_json.hpp"

#include <algorithm>
#include <map>

#include "output/json_writer.hpp"
#include "output/words.hpp"

namespace berth::serve {
namespace {

using watch::DeviceHistory;
using watch::Series;
using watch::UsageRow;

void begin_json(output::JsonWriter& json, const Period& period) {
  json.open('{');
  json.field("schema", 1);
  json.field("from", output::show_time(period.from * 1000));
  json.field("to", output::show_time(period.to * 1000));
}

/// The key by which a usage row is summed.
std::string group_of(const UsageRow& row, const std::string& by) {
  if (by == "job") return row.key.job == 0 ? "-" : std::to_string(row.key.job);
  if (by == "command") return row.key.program.empty() ? "?" : row.key.program;
  return row.key.user.empty() ? "?" : row.key.user;
}

}  // namespace

std::vector<std::pair<std::int64_t, watch::Moment>> in_steps(const DeviceHistory& device,
                                                             std::int64_t step) {
  std::map<std::int64_t, watch::Mean> means;
  for (const auto& [time, moment] : device.moments) means[time - time % step].add(moment);
  std::vector<std::pair<std::int64_t, watch::Moment>> steps;
  for (auto& [time, mean] : means) steps.emplace_back(time, mean.take());
  return steps;
}

std::string history_json(const std::vector<DeviceHistory>& devices, const Period& period) {
  output::JsonWriter json;
  begin_json(json, period);
  json.rows("devices", devices, [&](const DeviceHistory& device) {
    const std::int64_t step = std::max(period.step, device.step);
    json.field("device", device.index);
    json.field("uuid", device.key);
    json.text_field("name", device.name);
    json.field("step_seconds", step);
    json.rows("points", in_steps(device, step), [&](const auto& point) {
      json.field("time", output::show_time(point.first * 1000));
      for (std::size_t i = 0; i < watch::kSeriesCount; ++i)
        json.field(watch::name(static_cast<Series>(i)), point.second[i]);
    });
  });
  json.close('}');
  return json.finish();
}

UsageSums usage_sums(const std::vector<UsageRow>& rows, const std::string& by,
                     const std::function<bool(const UsageRow&)>& is_wanted) {
  std::map<std::string, watch::Usage> groups;
  for (const UsageRow& row : rows)
    if (is_wanted(row)) groups[group_of(row, by)].add(row.usage);
  UsageSums sums(groups.begin(), groups.end());
  std::stable_sort(sums.begin(), sums.end(), [](const auto& a, const auto& b) {
    return a.second.held_seconds > b.second.held_seconds;
  });
  return sums;
}

std::string usage_json(const UsageSums& sums, const std::string& by, const Period& period) {
  output::JsonWriter json;
  begin_json(json, period);
  json.field("by", by);
  json.rows("usage", sums, [&](const auto& one) {
    const watch::Usage& usage = one.second;
    const bool is_known = usage.known_seconds > 0;
    json.field("name", one.first);
    json.field("held_seconds", usage.held_seconds);
    json.field("known_seconds", usage.known_seconds);
    json.field("used_seconds", is_known ? std::optional(usage.used_seconds) : std::nullopt);
    json.field("idle_seconds", is_known ? std::optional(usage.idle_seconds) : std::nullopt);
    json.field("memory_byte_seconds", usage.memory_byte_seconds);
    json.field("energy_joules", usage.energy_joules);
  });
  json.close('}');
  return json.finish();
}

std::string health_json(const std::vector<watch::CheckedDevice>& devices) {
  output::JsonWriter json;
  json.open('{');
  json.field("schema", 1);
  json.field("healthy", watch::is_well(devices));
  json.rows("devices", devices, [&](const watch::CheckedDevice& one) {
    json.field("device", one.device->index);
    json.text_field("uuid", one.device->uuid);
    json.text_field("name", one.device->name);
    json.field("verdict", watch::name(watch::verdict_of(one.checks)));
    json.rows("checks", one.checks, [&](const watch::HealthCheck& single) {
      json.field("check", single.id);
      json.field("verdict", watch::name(single.verdict));
      json.text_field("detail", single.detail);
    });
  });
  json.close('}');
  return json.finish();
}

}  // namespace berth::serve
