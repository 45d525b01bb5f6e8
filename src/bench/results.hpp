// The results of `berth bench` in files: parses, merges and compares them. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/device.hpp"

namespace berth::bench {

/// An earlier result of the same case on the same device.
struct EarlierResult {
  double seconds = 0, work = 0, spread_percent = 0;
  std::uint64_t size = 0;
  std::string name, case_key;          // name of the device; key of the case: "gemm.fp32"
  std::int64_t unix_milliseconds = 0;  // when it was measured; 0: unknown

  /// Work per second, or runs per second if the amount of work is 0.
  [[nodiscard]] double rate() const { return (work > 0 ? work : 1) / seconds; }
};
// the key is from result_key()
using EarlierResults = std::map<std::string, EarlierResult, std::less<>>;

/// A smaller change is within the usual variation of measurements.
inline constexpr double kSlowerPercent = 5;

/// A name for a device that does not change between runs: its UUID. If it has none: its PCI
/// address, or its name if it has no address either.
[[nodiscard]] std::string device_key(const model::Device& device);
/// A name for a case on a device. It is the same in every run.
[[nodiscard]] std::string result_key(const model::Device& device, std::string_view case_key);
/// Reads a document of `berth bench --json`. `file` is for messages. Fails with kInvalidArgument:
/// E1057.
[[nodiscard]] Result<EarlierResults> parse_results(std::string_view document,
                                                   const std::string& file);
/// Merges two documents: all results of `newer`, and the results of devices and cases that only
/// `older` has. `older` is ignored if it is not a document of results.
[[nodiscard]] std::string with_results_of(std::string_view newer, std::string_view older);

/// The paths of the files of `berth bench --keep` in a state folder: the newest results, and the
/// first results.
[[nodiscard]] std::string kept_file(const std::string& state_folder);
[[nodiscard]] std::string kept_baseline_file(const std::string& state_folder);

struct Speed {
  // there was a baseline, or another device of the same name, to compare with
  bool is_compared = false;
  std::vector<std::string> slower;  // a translated sentence for each case that is slower
};
/// Compares the newest results of a device with its baseline, and with the median of the other
/// devices of this name. A case is slower if its speed is lower by more than kSlowerPercent and by
/// more than either spread.
[[nodiscard]] Speed speed_of(std::string_view device_key, const EarlierResults& latest,
                             const EarlierResults& baseline);

}  // namespace berth::bench
