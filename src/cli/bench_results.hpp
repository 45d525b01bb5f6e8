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
  const model::Device* peer = nullptr;  // the other GPU of a copy between GPUs
  bench::Case one{};
  Result<bench::Measured> measured{bench::Measured{}};
  std::optional<bench::Statistics> times;   // absent: it failed
  std::optional<double> peak_per_second{};  // flop or bytes per second from the catalogue
  std::optional<EarlierResult> earlier{};
  // The lowest clock while it ran, the device's highest, and what slowed it. Absent: not known.
  std::optional<std::uint64_t> clock_mhz{}, clock_max_mhz{};
  std::vector<std::string> throttle_reasons{};  // identifiers, as in model::Device

  [[nodiscard]] std::string key() const;  // "gemm.fp32"; "peer.to.1": to device 1
  [[nodiscard]] std::optional<double> work_per_second() const;
  /// Absent: not checked.
  [[nodiscard]] std::optional<bool> is_right() const;
  /// Change of the speed: -10 means a tenth slower than earlier.
  [[nodiscard]] std::optional<double> change_percent() const;
  /// Whether the new result is slower by more than 5 %, and by more than both spreads.
  [[nodiscard]] bool is_slower() const;
};

struct SkippedDevice {
  const model::Device* device = nullptr;
  std::string reason;  // translated
};

struct BenchReport {
  std::vector<BenchRow> rows;
  std::vector<SkippedDevice> skipped;
  std::int64_t unix_milliseconds = 0;
  double seconds = 1;
  int threads = 1;
};

/// Reads the results from a file that --save wrote. Fails like read_file(), or with
/// kInvalidArgument: E1057.
[[nodiscard]] Result<EarlierResults> read_results(const std::string& file);

[[nodiscard]] std::string bench_json(const BenchReport& report);
/// A bar chart, with a group for each unit.
[[nodiscard]] std::string bench_svg(const BenchReport& report);
[[nodiscard]] std::string bench_text(const BenchReport& report, const output::Terminal& terminal);

}  // namespace berth::cli
