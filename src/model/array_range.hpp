// Which jobs an array has, as people write it: "1-100", "0-9,20", "0-100:10", and how many of them
// may run at a time: "1-100%4".
#pragma once

#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth::model {

struct ArrayRange {
  std::vector<int> indices;  // ascending, without repetition; at least one
  int at_most = 0;           // at a time; 0: as many as fit
};

inline constexpr int kMostArrayJobs = 10'000;

/// Indices from 0 to 1 000 000. Fails with kInvalidArgument (E0105).
[[nodiscard]] Result<ArrayRange> parse_array_range(std::string_view given);

}  // namespace berth::model
