// Detects memory that keeps growing, from readings of the whole run. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/run.hpp"

namespace berth::run {

/// The smallest reading of each interval. The number of intervals is limited, so a long run has
/// longer intervals. The smallest reading is used because garbage collectors and caches give memory
/// back.
class MemorySeries {
 public:
  void add(double seconds, std::uint64_t bytes);

  /// The smallest reading in each of `count` parts of the run. Empty if a quarter of them has no
  /// reading.
  [[nodiscard]] std::vector<double> floors(std::size_t count) const;
  /// The time of the last reading, in seconds.
  [[nodiscard]] double length() const { return last_; }

  static constexpr std::size_t kMost = 512;

 private:
  std::vector<std::optional<std::uint64_t>> least_;
  double width_ = 0.25;  // seconds
  double last_ = 0;
};

/// Returns the growth of the memory; nullopt if it does not grow, or if the run was shorter than
/// kShortest. Only the second half of the run counts. The memory must rise in each third of it, and
/// rise as fast at its end as at its beginning.
[[nodiscard]] std::optional<model::MemoryGrowth> growth_of(const MemorySeries& series);

inline constexpr double kShortestGrowth = 120;  // seconds

}  // namespace berth::run
