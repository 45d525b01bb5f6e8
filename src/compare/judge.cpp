#include "compare/judge.hpp"

#include <algorithm>
#include <tuple>

namespace berth::compare {
namespace {

using model::Comparison;
using model::GpuWorth;
using model::RunFigures;
using model::SettingResult;
using model::Spread;

constexpr double kAlike = 0.02;
constexpr double kAlikeIfRunOnce = 0.10;
// in seconds; the start-up time of a process usually varies by this much
constexpr double kAlikeSeconds = 0.01;

std::optional<Spread> spread_of_known(const std::vector<RunFigures>& runs,
                                      std::optional<double> RunFigures::*value) {
  std::vector<double> known;
  for (const RunFigures& run : runs)
    if (run.*value) known.push_back(*(run.*value));
  if (known.empty()) return std::nullopt;
  return spread_of(std::move(known));
}

void fill_spreads(SettingResult& result) {
  if (result.runs.empty()) return;
  std::vector<double> wall;
  for (const RunFigures& run : result.runs) wall.push_back(run.wall_seconds);
  result.wall_seconds = spread_of(std::move(wall));
  result.cpu_seconds = spread_of_known(result.runs, &RunFigures::cpu_seconds);
  result.memory_bytes = spread_of_known(result.runs, &RunFigures::memory_bytes);
  result.device_memory_bytes = spread_of_known(result.runs, &RunFigures::device_memory_bytes);
  result.energy_millijoules = spread_of_known(result.runs, &RunFigures::energy_millijoules);
}

bool is_in_race(const SettingResult& result) {
  return result.out_of_race.empty() && result.wall_seconds.has_value();
}

bool has_lower_median(const SettingResult& one, const SettingResult& other) {
  return one.wall_seconds->median < other.wall_seconds->median;
}

/// Sort key of a setting. Settings that need fewer GPUs, threads and variables come first.
auto need_of(const SettingResult& result) {
  const auto used = result.runs.front().threads;
  return std::tuple(result.setting.gpus, result.setting.threads.value_or(used.value_or(0)),
                    result.setting.variables.size(), result.wall_seconds->median);
}

template <typename Accept, typename Less>
std::optional<std::size_t> best(const Comparison& comparison, const Accept& accept,
                                const Less& less) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < comparison.settings.size(); ++i) {
    const SettingResult& one = comparison.settings[i];
    if (!is_in_race(one) || !accept(one)) continue;
    if (!found || less(one, comparison.settings[*found])) found = i;
  }
  return found;
}

std::optional<GpuWorth> gpu_worth(const Comparison& comparison) {
  const auto gpu = best(
      comparison, [](const SettingResult& one) { return one.setting.gpus > 0; }, has_lower_median);
  const auto cpu = best(
      comparison, [](const SettingResult& one) { return one.setting.gpus == 0; }, has_lower_median);
  if (!gpu || !cpu) return std::nullopt;
  GpuWorth worth{GpuWorth::Verdict::kSame, *gpu, *cpu};
  const SettingResult& with = comparison.settings[*gpu];
  const SettingResult& without = comparison.settings[*cpu];
  const bool unused = std::all_of(with.runs.begin(), with.runs.end(),
                                  [](const RunFigures& run) { return run.gpu_use == "not_seen"; });
  const bool alike = are_alike(*with.wall_seconds, *without.wall_seconds);
  if (!alike && has_lower_median(with, without))
    worth.verdict = GpuWorth::Verdict::kFaster;
  else if (unused)
    worth.verdict = GpuWorth::Verdict::kUnused;
  else if (!alike)
    worth.verdict = GpuWorth::Verdict::kSlower;
  return worth;
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back(), values.size()};
}

bool are_alike(const Spread& one, const Spread& other) {
  const auto holds = [](const Spread& spread, double value) {
    return spread.least <= value && value <= spread.most;
  };
  if (holds(one, other.median) && holds(other, one.median)) return true;
  const double within = std::min(one.runs, other.runs) < 2 ? kAlikeIfRunOnce : kAlike;
  return std::abs(one.median - other.median) <
         std::max(kAlikeSeconds, within * std::min(one.median, other.median));
}

void judge(Comparison& comparison) {
  for (SettingResult& one : comparison.settings) fill_spreads(one);
  const auto any = [](const SettingResult&) { return true; };
  const auto fastest = best(comparison, any, has_lower_median);
  if (!fastest) return;
  const Spread least = *comparison.settings[*fastest].wall_seconds;
  for (SettingResult& one : comparison.settings) {
    if (!is_in_race(one)) continue;
    if (least.median > 0) one.ratio = one.wall_seconds->median / least.median;
    one.as_fast = are_alike(*one.wall_seconds, least);
  }
  comparison.winner = best(
      comparison, [](const SettingResult& one) { return one.as_fast; },
      [](const SettingResult& one, const SettingResult& other) {
        return need_of(one) < need_of(other);
      });
  comparison.gpu_worth = gpu_worth(comparison);
}

}  // namespace berth::compare
