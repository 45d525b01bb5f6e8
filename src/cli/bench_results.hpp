// The results of `berth bench`: figures, their comparison with earlier ones, and both as text and
// as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "bench/case.hpp"
#include "bench/timing.hpp"
#include "model/device.hpp"
#include "output/terminal.hpp"

namespace berth::cli {

/// An earlier result of the same case on the same device.
struct EarlierResult {
  double seconds = 0, work = 0, spread_percent = 0;
  std::uint64_t size = 0;
  std::string name, case_key;  // of the device; "gemm.fp32"

  /// Work a second, or runs a second if the case has no amount of work.
  [[nodiscard]] double rate() const { return (work > 0 ? work : 1) / seconds; }
};
using EarlierResults = std::map<std::string, EarlierResult, std::less<>>;

struct BenchRow {
  const model::Device* device = nullptr;
  bench::Case one{};
  Result<bench::Measured> measured{bench::Measured{}};
  std::optional<bench::Statistics> times;   // absent: it failed
  std::optional<double> peak_per_second{};  // flop or bytes per second from the catalogue
  std::optional<EarlierResult> earlier{};

  [[nodiscard]] std::optional<double> work_per_second() const;
  /// Absent: not checked.
  [[nodiscard]] std::optional<bool> is_right() const;
  /// Change of the speed: -10 means a tenth slower than earlier.
  [[nodiscard]] std::optional<double> change_percent() const;
  /// Whether it is slower by more than 5 %, and by more than both spreads.
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

/// A key for a case on a device that is the same in every run.
[[nodiscard]] std::string result_key(const model::Device& device, std::string_view case_key);
/// Reads the results from a file that --save wrote. Fails with kInvalidArgument: E1057.
[[nodiscard]] Result<EarlierResults> read_results(const std::string& file);

/// The files of `berth bench --keep`: the newest results, and the first ones.
[[nodiscard]] std::string kept_file();
[[nodiscard]] std::string kept_baseline_file();

[[nodiscard]] std::string bench_json(const BenchReport& report);
/// A bar chart, with a group for each unit.
[[nodiscard]] std::string bench_svg(const BenchReport& report);
[[nodiscard]] std::string bench_text(const BenchReport& report, const output::Terminal& terminal);

}  // namespace berth::cli
