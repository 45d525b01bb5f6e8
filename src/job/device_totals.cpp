#include "job/device_totals.hpp"

#include <algorithm>

namespace berth::job {
namespace {

using model::DeviceUse;
using model::Reading;
using std::chrono::milliseconds;

bool is_same(const DeviceUse& one, const DeviceUse& other) {
  return one.uuid.empty() ? one.device == other.device : one.uuid == other.uuid;
}

template <typename T>
Reading<T> larger(const Reading<T>& one, const Reading<T>& other) {
  if (!one || !other) return one ? one : other;
  return std::max(*one, *other);
}

Reading<double> mean(const Reading<double>& one, milliseconds wall, const Reading<double>& other,
                     milliseconds other_wall) {
  if (!one || !other) return one ? one : other;
  const auto both = static_cast<double>((wall + other_wall).count());
  if (both <= 0) return one;
  return (*one * static_cast<double>(wall.count()) +
          *other * static_cast<double>(other_wall.count())) /
         both;
}

Reading<std::uint64_t> sum(const Reading<std::uint64_t>& one, const Reading<std::uint64_t>& other) {
  const auto is_none = [](const Reading<std::uint64_t>& reading) {
    return !reading && reading.why == model::Absence::kTooShort;
  };
  if (is_none(one)) return other;
  if (is_none(other) || !one) return one;
  if (!other) return other;
  return *one + *other;
}

}  // namespace

void DeviceTotals::add(const std::vector<DeviceUse>& devices, milliseconds wall) {
  std::vector<DeviceUse> all = devices;
  for (const DeviceUse& had : devices_) {
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const DeviceUse& one) { return is_same(one, had); });
    if (same == all.end()) {
      all.push_back(had);
      continue;
    }
    same->memory_peak_bytes = larger(same->memory_peak_bytes, had.memory_peak_bytes);
    same->utilization_mean_percent =
        mean(same->utilization_mean_percent, wall, had.utilization_mean_percent, wall_);
    same->utilization_peak_percent =
        larger(same->utilization_peak_percent, had.utilization_peak_percent);
    same->energy_millijoules = sum(same->energy_millijoules, had.energy_millijoules);
  }
  devices_ = std::move(all);
  wall_ += wall;
  held_seconds_ +=
      std::chrono::duration<double>(wall).count() * static_cast<double>(devices.size());
}

}  // namespace berth::job
