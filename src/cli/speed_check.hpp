// Whether a device is as fast as before, and as fast as others with the same name: a check of
// `berth health` from the results of `berth bench --keep`. Pure.
#pragma once

#include "bench/results.hpp"
#include "model/device.hpp"
#include "watch/health.hpp"

namespace berth::cli {

/// Fails if a case is slower than in `baseline`, or slower than the median of the other devices
/// with this name. The difference must be more than 5 %, and more than the spreads of both results.
/// Not checked if `latest` has no result of this device that can be compared.
[[nodiscard]] watch::HealthCheck speed_check(const model::Device& device,
                                             const bench::EarlierResults& latest,
                                             const bench::EarlierResults& baseline);

}  // namespace berth::cli
