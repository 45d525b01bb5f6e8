// Whether a GPU is fit for a new job of a cluster.
#pragma once

#include <string>

#include "model/device.hpp"

namespace berth::engines {

/// The first check that failed, as a sentence; "" if none failed. A GPU that is hot or slowed down
/// still computes, so it counts as fit, and running jobs keep it.
[[nodiscard]] std::string why_unfit(const model::Device& device);

}  // namespace berth::engines
