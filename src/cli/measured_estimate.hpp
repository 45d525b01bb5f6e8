// Stores the estimates of `berth plan measure`, in a small file for each command and folder. `berth
// run` reads them, and warns if a job's --memory is less than its estimate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace berth::cli {

struct MeasuredEstimate {
  std::uint64_t peak_bytes = 0;     // the peak of the framework's memory allocator
  std::uint64_t reserve_bytes = 0;  // how much memory to reserve on a GPU
};

/// Stores the estimate for this command in the current folder. Ignores a failed write, because the
/// estimate is only used for a warning.
void keep_estimate(const std::vector<std::string>& command, const MeasuredEstimate& estimate);
/// The stored estimate for exactly this command in the current folder; nullopt if there is none.
[[nodiscard]] std::optional<MeasuredEstimate> estimate_for(const std::vector<std::string>& command);

}  // namespace berth::cli
