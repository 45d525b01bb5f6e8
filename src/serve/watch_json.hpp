// JSON of history, usage and health, for the verbs and for the API: both print the same documents.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "watch/health.hpp"
#include "watch/history.hpp"

namespace berth::serve {

/// Unix seconds; `to` is not included. `step` in seconds; 0: the finest.
struct Period {
  std::int64_t from = 0, to = 0, step = 0;
};

/// Means over `step` seconds.
[[nodiscard]] std::vector<std::pair<std::int64_t, watch::Moment>> in_steps(
    const watch::DeviceHistory& device, std::int64_t step);
[[nodiscard]] std::string history_json(const std::vector<watch::DeviceHistory>& devices,
                                       const Period& period);

using UsageSums = std::vector<std::pair<std::string, watch::Usage>>;
/// Sums of the wanted rows by "user", "job" or "command"; the longest holder first.
[[nodiscard]] UsageSums usage_sums(const std::vector<watch::UsageRow>& rows, const std::string& by,
                                   const std::function<bool(const watch::UsageRow&)>& is_wanted);
[[nodiscard]] std::string usage_json(const UsageSums& sums, const std::string& by,
                                     const Period& period);

[[nodiscard]] std::string health_json(const std::vector<watch::CheckedDevice>& devices);

}  // namespace berth::serve
