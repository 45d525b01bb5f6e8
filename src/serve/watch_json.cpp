#include "serve/watch_json.hpp"

#include <algorithm>
#include <map>

#include "output/json_writer.hpp"
#include "output/words.hpp"

namespace berth::serve {
namespace {

using watch::DeviceHistory;
using watch::Series;

void begin_json(output::JsonWriter& json, const Period& period) {
  json.open('{');
  json.field("schema", 1);
  json.field("from", output::show_time(period.from * 1000));
  json.field("to", output::show_time(period.to * 1000));
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

std::vector<std::optional<double>> in_parts(const DeviceHistory& device, const Period& period,
                                            Series series, std::size_t count) {
  std::vector<watch::Mean> means(count);
  const auto part_of = [&](std::int64_t time) {
    const auto since = static_cast<std::size_t>(std::max<std::int64_t>(0, time - period.from));
    return std::min(since * count / static_cast<std::size_t>(period.to - period.from), count);
  };
  for (const auto& [time, moment] : device.moments) {
    const std::size_t first = part_of(time);
    const std::size_t end = std::max(part_of(time + device.step), first + 1);
    for (std::size_t part = first; part < std::min(end, count); ++part) means[part].add(moment);
  }
  std::vector<std::optional<double>> values;
  values.reserve(count);
  for (watch::Mean& mean : means) values.push_back(mean.take()[static_cast<std::size_t>(series)]);
  return values;
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

std::string usage_json(const std::vector<UsageSum>& sums, const std::string& by,
                       const Period& period, const model::UsagePrices& prices) {
  output::JsonWriter json;
  begin_json(json, period);
  json.field("by", by);
  json.text_field("currency", prices.currency);
  json.rows("usage", sums, [&](const UsageSum& one) {
    const watch::Usage& usage = one.usage;
    const bool is_known = usage.known_seconds > 0;
    json.field("name", one.name);
    json.field("held_seconds", usage.held_seconds);
    json.field("known_seconds", usage.known_seconds);
    json.field("used_seconds", is_known ? std::optional(usage.used_seconds) : std::nullopt);
    json.field("idle_seconds", is_known ? std::optional(usage.idle_seconds) : std::nullopt);
    json.field("memory_byte_seconds", usage.memory_byte_seconds);
    json.field("energy_joules", usage.energy_joules);
    json.field("cost", model::cost_of(usage.held_seconds, usage.energy_joules, prices));
    json.field("devices", one.devices);
    json.field("utilization_p95_percent", one.utilization_p95_percent);
    json.field("memory_p95_bytes", one.memory_p95_bytes);
    json.field("memory_peak_bytes", usage.peak_memory_bytes);
    json.field("asked_memory_bytes", usage.asked_memory_bytes);
    json.text_field("next", one.next);
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
