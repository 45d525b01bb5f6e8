#include "run/memory_growth.hpp"

#include <algorithm>
#include <cmath>

namespace berth::run {
namespace {

// number of parts of a run; the last one is ignored, because processes end in it
constexpr std::size_t kParts = 25;
constexpr std::size_t kTail = 12;               // how many parts at the end of the run are examined
constexpr double kLeastRise = 8.0 * (1 << 20);  // bytes
// the memory must rise by at least this fraction of it
constexpr double kLeastRisePart = 0.005;
// the memory must rise in each third of the tail by at least this fraction of the whole rise
constexpr double kLeastThird = 0.2;
// The rate in the last third of the tail, divided by the rate in the first third. If the quotient
// is lower, the memory levels off.
constexpr double kLeastLastRate = 0.7;
// From one part of the run to a later one, the memory may fall by at most this fraction of the
// rise.
constexpr double kMostFall = 0.3;
// largest distance of a value from the fitted line, as a fraction of the rise
constexpr double kMostDistance = 0.15;

struct Line {
  // `start`: the value at part 0; `slope`: the rise from one part to the next
  double start = 0, slope = 0;
  [[nodiscard]] double at(std::size_t part) const {
    return start + slope * static_cast<double>(part);
  }
};

/// The line through floors[first] and all later values, by least squares.
Line fit(const std::vector<double>& floors, std::size_t first) {
  const auto count = static_cast<double>(floors.size() - first);
  double mean_x = 0, mean_y = 0;
  for (std::size_t i = first; i < floors.size(); ++i) {
    mean_x += static_cast<double>(i) / count;
    mean_y += floors[i] / count;
  }
  double products = 0, squares = 0;
  for (std::size_t i = first; i < floors.size(); ++i) {
    const double x = static_cast<double>(i) - mean_x;
    products += x * (floors[i] - mean_y);
    squares += x * x;
  }
  const double slope = products / squares;
  return {mean_y - slope * mean_x, slope};
}

double largest_fall(const std::vector<double>& floors, std::size_t first) {
  double highest = floors[first], fall = 0;
  for (std::size_t i = first; i < floors.size(); ++i) {
    highest = std::max(highest, floors[i]);
    fall = std::max(fall, highest - floors[i]);
  }
  return fall;
}

bool keeps_rising(const std::vector<double>& floors, std::size_t first, double rise) {
  constexpr std::size_t kThird = kTail / 3;
  double first_third = 0, last_third = 0;
  for (std::size_t third = 0; third < 3; ++third) {
    const std::size_t from = first + third * kThird;
    const std::size_t to = std::min(from + kThird, floors.size() - 1);
    const double rate = (floors[to] - floors[from]) / static_cast<double>(to - from);
    if (rate * static_cast<double>(kTail - 1) < 3 * kLeastThird * rise) return false;
    if (third == 0) first_third = rate;
    last_third = rate;
  }
  return last_third >= kLeastLastRate * first_third &&
         largest_fall(floors, first) <= kMostFall * rise;
}

}  // namespace

void MemorySeries::add(double seconds, std::uint64_t bytes) {
  if (!(seconds >= 0) || !std::isfinite(seconds)) return;
  while (seconds / width_ >= static_cast<double>(kMost)) {
    width_ *= 2;
    const std::size_t merged = (least_.size() + 1) / 2;
    for (std::size_t i = 0; i < merged; ++i) {
      auto both = least_[2 * i];
      if (2 * i + 1 < least_.size() && least_[2 * i + 1])
        both = both ? std::min(*both, *least_[2 * i + 1]) : least_[2 * i + 1];
      least_[i] = both;
    }
    least_.resize(merged);
  }
  const auto at = static_cast<std::size_t>(seconds / width_);
  if (least_.size() <= at) least_.resize(at + 1);
  least_[at] = least_[at] ? std::min(*least_[at], bytes) : bytes;
  last_ = std::max(last_, seconds);
}

std::vector<double> MemorySeries::floors(std::size_t count) const {
  std::vector<std::optional<double>> parts(count);
  for (std::size_t i = 0; i < least_.size(); ++i) {
    if (!least_[i]) continue;
    auto& part = parts[std::min(i * count / least_.size(), count - 1)];
    const auto bytes = static_cast<double>(*least_[i]);
    part = part ? std::min(*part, bytes) : bytes;
  }
  const auto missing =
      static_cast<std::size_t>(std::count(parts.begin(), parts.end(), std::nullopt));
  if (least_.empty() || missing * 4 >= count) return {};
  std::vector<double> floors;
  double before = 0;
  for (const auto& part : parts) floors.push_back(before = part.value_or(before));
  return floors;
}

std::optional<model::MemoryGrowth> growth_of(const MemorySeries& series) {
  if (series.length() < kShortestGrowth) return std::nullopt;
  std::vector<double> floors = series.floors(kParts);
  if (floors.empty()) return std::nullopt;
  floors.pop_back();
  const std::size_t tail = floors.size() - kTail;
  const Line line = fit(floors, tail);
  const double rise = line.slope * static_cast<double>(kTail - 1);
  if (rise < std::max(kLeastRise, kLeastRisePart * floors.back()) ||
      !keeps_rising(floors, tail, rise))
    return std::nullopt;
  std::size_t since = tail;
  while (since > 0 && std::abs(floors[since - 1] - line.at(since - 1)) <= kMostDistance * rise)
    --since;
  const double part_minutes = series.length() / kParts / 60;
  model::MemoryGrowth growth;
  growth.bytes_per_minute = line.slope / part_minutes;
  growth.since_seconds = static_cast<double>(since) * part_minutes * 60;
  return growth;
}

}  // namespace berth::run
