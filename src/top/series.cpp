#include "top/series.hpp"

#include <algorithm>
#include <cmath>

#include "watch/join.hpp"

namespace berth::top {

std::optional<double> memory_percent(const model::Device& device) {
  const auto& used = device.readings.memory_used_bytes;
  const auto& total = device.readings.memory_total_bytes;
  if (!used || !total || *total == 0) return std::nullopt;
  return static_cast<double>(*used) / static_cast<double>(*total) * 100;
}

namespace {

std::int8_t whole(std::optional<double> percent) {
  return percent ? static_cast<std::int8_t>(std::lround(std::clamp(*percent, 0.0, 100.0))) : -1;
}

std::optional<double> power_percent(const model::Device& device) {
  const auto& now = device.readings.power_milliwatts;
  const auto& most = device.readings.power_limit_milliwatts;
  if (!now || !most || *most == 0) return std::nullopt;
  return static_cast<double>(*now) / static_cast<double>(*most) * 100;
}

}  // namespace

void Series::add(const watch::Frame& frame) {
  for (const model::Device& device : frame.snapshot.devices) {
    auto& points = points_[watch::key_of(device)];
    points.push_back(
        {{whole(device.readings.utilization_percent.value), whole(memory_percent(device)),
          whole(power_percent(device)), whole(device.readings.temperature_celsius.value)}});
    if (points.size() > kMost) points.pop_front();
  }
}

const std::deque<Point>& Series::of(const model::Device& device) const {
  static const std::deque<Point> kNone;
  const auto found = points_.find(watch::key_of(device));
  return found == points_.end() ? kNone : found->second;
}

}  // namespace berth::top
