// The indices of a job array as users write them: "1-100", "0-9,20", or "0-100:10" in steps of 10.
// "1-100%4" also allows only 4 jobs of the array to run at a time.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth::model {

struct ArrayRange {
  std::vector<int> indices;  // ascending, unique, not empty
  int at_most = 0;  // how many jobs of the array may run at the same time; 0 means no limit
};

inline constexpr int kMostArrayJobs = 10'000;

/// Parses a range with indices from 0 to 1 000 000. Fails with kInvalidArgument (E0105).
[[nodiscard]] Result<ArrayRange> parse_array_range(std::string_view given);

}  // namespace berth::model
