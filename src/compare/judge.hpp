// The arithmetic of `berth compare`: medians, spreads, ratios and the winner. Pure.
#pragma once

#include <vector>

#include "model/comparison.hpp"

namespace berth::compare {

/// The median, least and most. The median of an even number of values is the mean of the middle
/// two. `values` is not empty.
[[nodiscard]] model::Spread spread_of(std::vector<double> values);

/// Whether the runs do not show which of the two settings is faster: each median lies within the
/// range of the other one, or the medians differ by less than 2 % or 10 ms. A single run has no
/// range; then the limit is 10 %.
[[nodiscard]] bool are_alike(const model::Spread& one, const model::Spread& other);

/// Fills spreads, ratios, the winner, and whether the GPU is worth it. Of all settings that are as
/// fast as the fastest, the winner is the one that needs the fewest GPUs, then threads, then
/// variables.
void judge(model::Comparison& comparison);

}  // namespace berth::compare
