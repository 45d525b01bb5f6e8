// A check of `berth health`: whether a device is as fast as before, and as fast as others with the
// same name. Uses the results of `berth bench --keep`. Pure.
#pragma once

#include "bench/results.hpp"
#include "model/device.hpp"
#include "watch/health.hpp"

namespace berth::cli {

/// Fails if a case is slower than in `baseline`, or slower than the median of the other devices
/// with this name, by more than 5 % and by more than the spread of either result. Unchecked if
/// `latest` has no comparable result of this device.
[[nodiscard]] watch::HealthCheck speed_check(const model::Device& device,
                                             const bench::EarlierResults& latest,
                                             const bench::EarlierResults& baseline);

}  // namespace berth::cli
