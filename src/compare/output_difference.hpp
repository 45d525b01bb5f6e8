// Whether two runs of a program wrote the same results. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/comparison.hpp"

namespace berth::compare {

/// The largest allowed difference of two floating-point numbers a and b: absolute + relative ·
/// max(|a|, |b|). Integers and words must be equal.
struct Tolerance {
  double relative = 1e-4;
  double absolute = 1e-8;
};

/// Parses a tolerance: a number such as "1e-3", or a number type whose rounding error determines
/// the tolerance: float64, float32, tf32, float16, bfloat16. nullopt if it is neither.
[[nodiscard]] std::optional<Tolerance> parse_tolerance(std::string_view given);

/// One number or word of an output.
struct Token {
  enum class Kind { kWord, kInteger, kReal } kind = Kind::kWord;
  std::string text;
  double value = 0;
  double last_place = 0;  // the value of the last printed decimal place, such as 0.01 for "0.25"
  std::size_t line = 0;   // line number, from 1; for an array, the index of the element
};
using Output = std::vector<Token>;

/// Parses a NumPy array file (.npy) or text. Of a text, only lines that contain one of the strings
/// in `lines` are kept, or all if `lines` is empty. Fails with E0543 if the array is damaged or has
/// an unsupported type.
[[nodiscard]] Result<Output> parse_output(std::string_view bytes,
                                          const std::vector<std::string>& lines);

/// The first difference; nullopt if the outputs agree. Tokens that are marked in `ignored` are not
/// compared.
[[nodiscard]] std::optional<model::OutputDifference> difference_of(
    const Output& expected, const Output& found, Tolerance tolerance,
    const std::vector<bool>& ignored = {});

/// Collects the outputs of all runs of one setting. Keeps the first output, and records which of
/// its numbers differ between runs, such as elapsed times.
class OutputSeries {
 public:
  void add(Output output, Tolerance tolerance);
  [[nodiscard]] bool empty() const { return runs_ == 0; }
  [[nodiscard]] std::size_t runs() const { return runs_; }
  /// Whether all runs of the setting gave the same output, apart from numbers.
  [[nodiscard]] bool is_stable() const { return stable_; }
  [[nodiscard]] const Output& first() const { return first_; }
  [[nodiscard]] const std::vector<bool>& varying() const { return varying_; }

 private:
  Output first_;
  std::vector<bool> varying_;  // for each token of first_: whether it differs between runs
  std::size_t runs_ = 0;
  bool stable_ = true;
};

/// Compares the outputs of one setting with those of the reference setting.
[[nodiscard]] model::OutputCheck check_output(const OutputSeries& reference,
                                              const OutputSeries& series, Tolerance tolerance);

}  // namespace berth::compare
