#include "plan/measured.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "plan/memory.hpp"

// berth_embed() in CMake generates these symbols.
extern "C" {
extern const char berth_plan_measure_hook[];
extern const char berth_plan_measure_hook_end[];
}

namespace berth::plan {
namespace {

using Json = nlohmann::json;

constexpr double kMostBytes = 1e16, kMostSize = 1e12;
constexpr std::size_t kMostRecordings = 16, kMostPoints = 100'000;
constexpr double kLargestBatch = 1e7;
constexpr double kUnusedShare = 0.1;

Error unreadable() {
  return {ErrorCode::kUnavailable, "E0954",
          text("the program's memory was not recorded: the recording cannot be read"),
          "berth plan measure -- python3 train.py"};
}

/// Returns the number, which must be from `least` to `most`. If it is not, or `json` is no number,
/// throws Json::exception.
double number(const Json& json, double least, double most) {
  const double value = json_value<double>(json);
  if (value >= least && value <= most) return value;
  throw Json::other_error::create(0, "out of range", nullptr);
}

std::optional<double> maybe(const Json& object, const char* key, double least, double most) {
  const Json& value = object.at(key);
  return value.is_null() ? std::nullopt : std::optional(number(value, least, most));
}

Recording recording_of(const Json& json) {
  Recording one;
  one.batch = maybe(json, "batch", 1, kMostSize);
  one.seq = maybe(json, "seq", 1, kMostSize);
  one.base = number(json.at("base_bytes"), -kMostBytes, kMostBytes);
  one.pattern = json_value<std::string>(json.at("pattern"));
  one.reserved = maybe(json, "reserved_bytes", 0, kMostBytes);
  const auto& curve = json.at("curve").get_ref<const Json::array_t&>();
  if (curve.empty() || curve.size() > kMostPoints)
    throw Json::other_error::create(0, "out of range", nullptr);
  for (const Json& point : curve) one.curve.push_back(number(point, -kMostBytes, kMostBytes));
  return one;
}

bool has_same_points(const Recording& one, const Recording& other) {
  return one.pattern == other.pattern && one.curve.size() == other.curve.size();
}

/// The recording of the unchanged program, one with another batch, and those with another sequence
/// length.
struct Series {
  const Recording* base = nullptr;
  const Recording* other_batch = nullptr;
  std::vector<const Recording*> other_seqs;
};

Series series_of(const Measurement& measurement) {
  Series series;
  for (const Recording& one : measurement.recordings) {
    if (series.base == nullptr) {
      series.base = &one;
    } else if (one.seq == series.base->seq && one.batch != series.base->batch) {
      series.other_batch = &one;
    } else if (one.batch == series.base->batch && one.seq != series.base->seq) {
      series.other_seqs.push_back(&one);
    }
  }
  return series;
}

/// The value at `x` of the line or parabola through these points. A parabola is never bent
/// downwards.
double through(const std::vector<std::array<double, 2>>& points, double x) {
  if (points.size() == 1) return points[0][1];
  const auto [x0, y0] = points[0];
  const auto [x1, y1] = points[1];
  const double slope = (y1 - y0) / (x1 - x0);
  if (points.size() == 2) return y0 + slope * (x - x0);
  const auto [x2, y2] = points[2];
  const double bend = std::max(0.0, ((y2 - y1) / (x2 - x1) - slope) / (x2 - x0));
  return y0 + slope * (x - x0) + bend * (x - x0) * (x - x1);
}

/// Computes a value, such as the peak memory, for another batch and sequence length from the
/// recordings.
class Extrapolation {
 public:
  Extrapolation(const Series& series, double batch, double seq)
      : series_(series), batch_(batch), seq_(seq) {}

  /// Extrapolates `value`, a function that returns an amount of memory for a recording.
  template <typename Value>
  double at(const Value& value) const {
    const Recording& base = *series_.base;
    const double measured = value(base);
    double with_seq = measured;
    if (seq_ != base.seq.value_or(seq_) && !series_.other_seqs.empty()) {
      std::vector<std::array<double, 2>> points{{*base.seq, measured}};
      for (const Recording* one : series_.other_seqs) points.push_back({*one->seq, value(*one)});
      with_seq = through(points, seq_);
    }
    if (series_.other_batch == nullptr || batch_ == base.batch.value_or(batch_)) return with_seq;
    const double slope =
        (measured - value(*series_.other_batch)) / (*base.batch - *series_.other_batch->batch);
    // The part that does not grow with the batch does not grow with the sequence length either.
    const double fixed = measured - slope * *base.batch;
    return fixed + (with_seq - fixed) * batch_ / *base.batch;
  }

 private:
  const Series& series_;
  double batch_, seq_;
};

}  // namespace

std::string_view measure_hook() {
  return {berth_plan_measure_hook,
          static_cast<std::size_t>(berth_plan_measure_hook_end - berth_plan_measure_hook)};
}

double Recording::peak() const {
  return base + *std::max_element(curve.begin(), curve.end());
}

Result<Measurement> read_measurement(std::string_view json) try {
  const Json document = Json::parse(json);
  if (json_value<int>(document.at("schema")) != 1) return unreadable();
  Measurement out;
  out.framework = json_text(document, "framework");
  out.device = json_text(document, "device");
  out.is_training = json_value<bool>(document.at("optimizer"));
  out.batch = maybe(document, "batch", 1, kMostSize);
  out.seq = maybe(document, "seq", 1, kMostSize);
  if (const Json& parts = document.at("parts"); !parts.is_null()) {
    out.weights = number(parts.at("weights_bytes"), 0, kMostBytes);
    out.gradients = number(parts.at("gradients_bytes"), 0, kMostBytes);
    out.optimizer = number(parts.at("optimizer_bytes"), 0, kMostBytes);
    out.other = number(parts.at("other_bytes"), 0, kMostBytes);
  }
  const auto& recordings = document.at("recordings").get_ref<const Json::array_t&>();
  if (recordings.size() > kMostRecordings) return unreadable();
  for (const Json& one : recordings) {
    Recording next = recording_of(one);
    // Refuse two recordings of the same size, because their difference shows nothing.
    for (const Recording& other : out.recordings)
      if (other.batch == next.batch && other.seq == next.seq) return unreadable();
    out.recordings.push_back(std::move(next));
  }
  if (const Json& problem = document.at("problem"); !problem.is_null())
    out.sizes_differ = json_value<std::string>(problem) == "sizes";
  return out;
} catch (const Json::exception&) {
  return unreadable();
}

std::optional<StepPeak> peak_of_step(const Measurement& measurement, std::optional<double> batch,
                                     std::optional<double> seq) {
  const Series series = series_of(measurement);
  if (series.base == nullptr) return std::nullopt;
  const Recording& base = *series.base;
  const bool other_batch = batch && batch != base.batch, other_seq = seq && seq != base.seq;
  if (other_batch && (series.other_batch == nullptr || !base.batch || !series.other_batch->batch))
    return std::nullopt;
  if (other_seq && (series.other_seqs.empty() || !base.seq)) return std::nullopt;
  for (const Recording* one : series.other_seqs)
    if (other_seq && !one->seq) return std::nullopt;
  const Extrapolation model(series, batch.value_or(base.batch.value_or(1)),
                            seq.value_or(base.seq.value_or(1)));
  StepPeak out;
  if (other_batch) out.is_by_point = has_same_points(base, *series.other_batch);
  for (const Recording* one : series.other_seqs)
    if (other_seq) out.is_by_point = out.is_by_point && has_same_points(base, *one);
  if (!out.is_by_point) {
    out.bytes = model.at([](const Recording& one) { return one.peak(); });
    return out;
  }
  out.bytes = -INFINITY;
  for (std::size_t i = 0; i < base.curve.size(); ++i)
    out.bytes = std::max(out.bytes,
                         model.at([i](const Recording& one) { return one.base + one.curve[i]; }));
  return out;
}

std::optional<double> largest_batch(const Measurement& measurement, std::optional<double> seq,
                                    double bytes) {
  const auto fits = [&](double batch) {
    const auto peak = peak_of_step(measurement, batch, seq);
    return peak && peak->bytes <= bytes;
  };
  if (!fits(1)) return std::nullopt;
  double most = 1;
  while (most < kLargestBatch && fits(most * 2)) most *= 2;
  for (double step = most / 2; step >= 1; step /= 2)
    if (fits(most + step)) most += step;
  return most < kLargestBatch ? std::optional(most) : std::nullopt;
}

double reserve_for(double peak_bytes) {
  return peak_bytes * (1 + kUnusedShare) + kDriverContextBytes;
}

}  // namespace berth::plan
