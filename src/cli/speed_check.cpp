#include "cli/speed_check.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace berth::cli {
namespace {

constexpr double kSlowerPercent = 5;

/// How much slower `now` is than `rate`, in percent; nullopt if it is not slower by more than
/// measurements vary.
std::optional<double> slower_percent(const EarlierResult& now, double rate, double spread) {
  if (rate <= 0) return std::nullopt;
  const double change = 100 * (1 - now.rate() / rate);
  if (change <= std::max({kSlowerPercent, now.spread_percent, spread})) return std::nullopt;
  return change;
}

struct Twins {
  double rate = 0, spread_percent =
                       0;  // the median rate of the other devices with this name; 0: there are none
};

Twins twins_of(const std::string& key, const EarlierResult& now, const EarlierResults& latest) {
  std::vector<double> rates;
  Twins out;
  for (const auto& [other, result] : latest) {
    if (other == key || result.name != now.name || result.case_key != now.case_key) continue;
    rates.push_back(result.rate());
    out.spread_percent = std::max(out.spread_percent, result.spread_percent);
  }
  if (rates.empty()) return out;
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  out.rate = *middle;
  return out;
}

}  // namespace

watch::HealthCheck speed_check(const model::Device& device, const EarlierResults& latest,
                               const EarlierResults& baseline) {
  watch::HealthCheck out{"speed", watch::Verdict::kNotChecked, ""};
  const auto add = [&](std::string sentence) {
    out.verdict = watch::Verdict::kFailed;
    out.detail += (out.detail.empty() ? "" : "; ") + std::move(sentence);
  };
  for (const auto& [key, now] : latest) {
    if (key != result_key(device, now.case_key)) continue;
    const auto before = baseline.find(key);
    const Twins twins = twins_of(key, now, latest);
    const bool can_compare = before != baseline.end() || twins.rate > 0;
    if (can_compare && out.verdict == watch::Verdict::kNotChecked)
      out.verdict = watch::Verdict::kOk;
    if (before != baseline.end())
      if (const auto slower =
              slower_percent(now, before->second.rate(), before->second.spread_percent)) {
        add(text("{} is {:.0f} % slower than in the baseline", now.case_key, *slower));
        continue;
      }
    if (const auto slower = slower_percent(now, twins.rate, twins.spread_percent))
      add(text("{} is {:.0f} % slower than on other devices of this name", now.case_key, *slower));
  }
  if (out.verdict == watch::Verdict::kNotChecked)
    out.detail = text("no results to compare: berth bench --keep");
  return out;
}

}  // namespace berth::cli
