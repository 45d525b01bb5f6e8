// The results of `berth bench`: figures, their comparison with earlier ones, and both as text and
// as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "bench/case.hpp"
#include "bench/results.hpp"
#include "bench/timing.hpp"
#include "model/device.hpp"
#include "output/terminal.hpp"

namespace berth::cli {

using bench::EarlierResult;
using bench::EarlierResults;

struct BenchRow {
  const model::Device* device = nullptr;
  const model::Device* peer = nullptr;  // the destination of a copy between two GPUs
  bench::Case one{};
  Result<bench::Measured> measured{bench::Measured{}};
  std::optional<bench::Statistics> times;  // absent if the case failed
  // the device's published peak, in flop or bytes per second
  std::optional<double> peak_per_second{};
  std::optional<EarlierResult> earlier{};
  // The lowest clock during the measurement, and the device's highest clock. Absent if not known.
  std::optional<std::uint64_t> clock_mhz{}, clock_max_mhz{};
  // why the clock is low: identifiers as in model::Device
  std::vector<std::string> throttle_reasons{};

  /// The name of a case with its target, such as "gemm.fp32", or "peer.to.1" for a copy to
  /// device 1.
  [[nodiscard]] std::string key() const;
  [[nodiscard]] std::optional<double> work_per_second() const;
  /// Whether the computed values are right; absent if they were not checked.
  [[nodiscard]] std::optional<bool> is_right() const;
  /// The change of the speed compared with the earlier result, in percent: -10 means 10 % slower.
  [[nodiscard]] std::optional<double> change_percent() const;
  /// Whether the new result is slower than the earlier one by more than 5 %, and by more than the
  /// spread of either result.
  [[nodiscard]] bool is_slower() const;
};

struct SkippedDevice {
  const model::Device* device = nullptr;
  std::string reason;  // why the device is skipped, translated
};

struct BenchReport {
  std::vector<BenchRow> rows;
  std::vector<SkippedDevice> skipped;
  std::int64_t unix_milliseconds = 0;
  double seconds = 1;
  int threads = 1;
};

/// Reads the results from a file that --save wrote. Fails with the errors of read_file(), or with
/// kInvalidArgument (E1057).
[[nodiscard]] Result<EarlierResults> read_results(const std::string& file);

[[nodiscard]] std::string bench_json(const BenchReport& report);
/// Draws a bar chart as SVG. The bars are grouped by unit.
[[nodiscard]] std::string bench_svg(const BenchReport& report);
[[nodiscard]] std::string bench_text(const BenchReport& report, const output::Terminal& terminal);

}  // namespace berth::cli
