// Repeats a run for some time, and computes median and spread of the times. The statistics are
// pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <vector>

namespace berth::bench {

struct Statistics {
  double median = 0, least = 0, most = 0;
  double spread_percent = 0;  // distance between the quartiles, in percent of the median
};

/// Computes median and spread. `values` must not be empty.
[[nodiscard]] inline Statistics statistics_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
  };
  Statistics all{at(0.5), values.front(), values.back(), 0};
  if (all.median > 0) all.spread_percent = 100 * (at(0.75) - at(0.25)) / all.median;
  return all;
}

/// The bytes per second of a PCIe link in one direction, without the encoding's overhead; 0: not
/// known. Copies reach about 90 % of this rate, because packets also have headers.
[[nodiscard]] inline double pcie_bytes_per_second(std::uint64_t generation, std::uint64_t width) {
  constexpr double kGigabits[] = {0,
                                  2.5 * 8 / 10,
                                  5.0 * 8 / 10,
                                  8.0 * 128 / 130,
                                  16.0 * 128 / 130,
                                  32.0 * 128 / 130,
                                  64.0 * 242 / 256};
  if (generation >= std::size(kGigabits)) return 0;
  return kGigabits[generation] * static_cast<double>(width) / 8 * 1e9;
}

[[nodiscard]] inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The wall time of one call of `work`.
template <typename Work>
[[nodiscard]] double seconds_of(Work&& work) {
  const double before = seconds_now();
  work();
  return seconds_now() - before;
}

inline constexpr std::size_t kLeastRuns = 5, kMostRuns = 10'000;

/// Calls `run` until the time is over, but at least kLeastRuns times. `run` returns the seconds of
/// one run. The first call is the warm-up and does not count. A negative return value stops early.
[[nodiscard]] inline std::vector<double> repeat(double seconds,
                                                const std::function<double()>& run) {
  std::vector<double> times;
  if (run() < 0) return times;
  const double end = seconds_now() + seconds;
  while (times.size() < kMostRuns && (times.size() < kLeastRuns || seconds_now() < end)) {
    const double one = run();
    if (one < 0) return {};
    times.push_back(one);
  }
  return times;
}

/// The number of rows of the square matrices: the largest power of two up to `most` for which
/// kLeastRuns + 1 runs take at most `seconds`, but at least 256. `seconds_256` is the time of one
/// product with 256 rows.
[[nodiscard]] inline std::uint64_t rows_for(double seconds_256, double seconds,
                                            std::uint64_t most) {
  std::uint64_t rows = 256;
  double one = std::max(seconds_256, 1e-9);
  while (rows * 2 <= most && 8 * one * (kLeastRuns + 1) <= seconds) rows *= 2, one *= 8;
  return rows;
}

}  // namespace berth::bench
