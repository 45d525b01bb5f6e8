// The memory of a program that `berth plan measure` recorded, and its peak with other batches and
// sequence lengths. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth::plan {

/// The memory during one step of the program. Memory that is kept between steps is counted
/// separately, in `base`.
struct Recording {
  std::optional<double> batch, seq;
  double base = 0;
  std::vector<double> curve;  // the memory after each allocation and each free, without `base`
  std::string pattern;        // equal for recordings with the same allocations and frees
  std::optional<double> reserved{};  // what the GPU's allocator had reserved from the driver

  [[nodiscard]] double peak() const;
};

struct Measurement {
  std::string framework, device;  // "PyTorch 1.13.0"; "cpu" or "cuda"
  bool is_training = false;       // the program has an optimizer
  // batch and sequence length of the unchanged program; nullopt: unknown
  std::optional<double> batch, seq;
  double weights = 0, gradients = 0, optimizer = 0, other = 0;  // bytes that are kept between steps
  std::vector<Recording> recordings;  // the first recording is of the unchanged program
  // the recording ended early, because batches have different sizes
  bool sizes_differ = false;
};

/// The Python code that records. The program runs it after `import torch`, with that module in the
/// variable `torch`.
[[nodiscard]] std::string_view measure_hook();

/// Reads the file that the recording code wrote. The program can write to that file too, so the
/// content is not trusted. Fails with kUnavailable (E0954).
[[nodiscard]] Result<Measurement> read_measurement(std::string_view json);

struct StepPeak {
  double bytes = 0;
  // false: the recordings have different allocations, so only their peaks were extrapolated
  bool is_by_point = true;
};
/// The peak of a step with this batch and this sequence length. nullopt: the recordings do not
/// suffice. The memory is assumed to grow linearly with the batch and quadratically with the
/// sequence length.
[[nodiscard]] std::optional<StepPeak> peak_of_step(const Measurement& measurement,
                                                   std::optional<double> batch,
                                                   std::optional<double> seq);
/// The largest batch whose peak is at most `bytes`. nullopt in three cases: not even a batch of 1
/// fits; the recordings do not suffice; or the memory grows so little that any batch would fit.
[[nodiscard]] std::optional<double> largest_batch(const Measurement& measurement,
                                                  std::optional<double> seq, double bytes);

/// The memory to reserve on a GPU for a peak of the framework's allocator. It is the peak plus a
/// tenth, because the allocator's blocks do not fit exactly, plus the memory of the driver's
/// context.
[[nodiscard]] double reserve_for(double peak_bytes);

}  // namespace berth::plan
