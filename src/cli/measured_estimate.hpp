// The estimates that `berth plan measure` stores. `berth run` reads them, and warns if a job's
// --memory is less than its estimate. There is one small file for each command and folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace berth::cli {

struct MeasuredEstimate {
  std::uint64_t peak_bytes = 0;     // peak of the framework's allocator
  std::uint64_t reserve_bytes = 0;  // what to reserve on a GPU
};

/// Stores the estimate for this command in the current folder. Ignores a failure to write it,
/// because the estimate is only a convenience.
void keep_estimate(const std::vector<std::string>& command, const MeasuredEstimate& estimate);
/// The stored estimate for exactly this command in the current folder.
[[nodiscard]] std::optional<MeasuredEstimate> estimate_for(const std::vector<std::string>& command);

}  // namespace berth::cli
