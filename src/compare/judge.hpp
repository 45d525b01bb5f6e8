// The arithmetic of `berth compare`: medians, spreads, ratios and the winner. Pure.
#pragma once

#include <vector>

#include "model/comparison.hpp"

namespace berth::compare {

/// The median, the least and the greatest value. The median of an even number of values is the mean
/// of the middle two. `values` must not be empty.
[[nodiscard]] model::Spread spread_of(std::vector<double> values);

/// Whether the runs do not show which setting is faster. This is so if each median lies within the
/// other setting's range, or if the medians differ by less than 2 % or 10 ms. A single run has no
/// range; then the limit is 10 %, not 2 %.
[[nodiscard]] bool are_alike(const model::Spread& one, const model::Spread& other);

/// Computes spreads, ratios, the winner, and whether the GPU is worth it. The winner is as fast as
/// the fastest setting. Of several such settings, it needs the fewest GPUs, then threads, then
/// variables.
void judge(model::Comparison& comparison);

}  // namespace berth::compare
