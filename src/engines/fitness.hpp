// Whether a GPU is healthy enough for new jobs of a cluster.
#pragma once

#include <optional>
#include <string>

#include "model/device.hpp"
#include "watch/health.hpp"

namespace berth::engines {

/// The first check that failed; nullopt if none failed. A GPU that is hot or slowed down still
/// computes, so it counts as fit, and running jobs keep it.
[[nodiscard]] std::optional<watch::HealthCheck> failed_check(const model::Device& device);
/// The failed check as a sentence; "" if none failed.
[[nodiscard]] std::string why_unfit(const model::Device& device);

}  // namespace berth::engines
