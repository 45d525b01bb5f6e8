#include "top/series.hpp"

#include "watch/join.hpp"

namespace berth::top {

std::optional<double> memory_percent(const model::Device& device) {
  const auto& used = device.readings.memory_used_bytes;
  const auto& total = device.readings.memory_total_bytes;
  if (!used || !total || *total == 0) return std::nullopt;
  return static_cast<double>(*used) / static_cast<double>(*total) * 100;
}

void Series::add(const watch::Frame& frame) {
  for (const model::Device& device : frame.snapshot.devices) {
    auto& points = points_[watch::key_of(device)];
    points.push_back({device.readings.utilization_percent.value, memory_percent(device)});
    if (points.size() > kMost) points.pop_front();
  }
}

const std::deque<Point>& Series::of(const model::Device& device) const {
  static const std::deque<Point> kNone;
  const auto found = points_.find(watch::key_of(device));
  return found == points_.end() ? kNone : found->second;
}

}  // namespace berth::top
