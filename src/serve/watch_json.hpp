// JSON of history, usage and health. The commands and the API return the same documents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/prices.hpp"
#include "serve/usage_sums.hpp"
#include "watch/health.hpp"
#include "watch/history.hpp"

namespace berth::serve {

/// `from` and `to` are in Unix seconds, and `to` is not included. `step` is in seconds; 0: the
/// finest step.
struct Period {
  std::int64_t from = 0, to = 0, step = 0;
};

/// Divides a period into `count` parts, and returns the mean of one reading in each part. A stored
/// reading is valid for one step of the history, so it can fill several parts.
[[nodiscard]] std::vector<std::optional<double>> in_parts(const watch::DeviceHistory& device,
                                                          const Period& period,
                                                          watch::Series series, std::size_t count);
/// Means over `step` seconds.
[[nodiscard]] std::vector<std::pair<std::int64_t, watch::Moment>> in_steps(
    const watch::DeviceHistory& device, std::int64_t step);
[[nodiscard]] std::string history_json(const std::vector<watch::DeviceHistory>& devices,
                                       const Period& period);

[[nodiscard]] std::string usage_json(const std::vector<UsageSum>& sums, const std::string& by,
                                     const Period& period, const model::UsagePrices& prices = {});

[[nodiscard]] std::string health_json(const std::vector<watch::CheckedDevice>& devices);

}  // namespace berth::serve
