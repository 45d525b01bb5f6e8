#include "cli/speed_check.hpp"

#include "base/text.hpp"

namespace berth::cli {

watch::HealthCheck speed_check(const model::Device& device, const bench::EarlierResults& latest,
                               const bench::EarlierResults& baseline) {
  const bench::Speed speed = bench::speed_of(bench::device_key(device), latest, baseline);
  if (!speed.is_compared)
    return {"speed", watch::Verdict::kNotChecked,
            text("there are no results to compare: run berth bench --keep")};
  return {"speed", speed.slower.empty() ? watch::Verdict::kOk : watch::Verdict::kFailed,
          fmt::format("{}", fmt::join(speed.slower, "; "))};
}

}  // namespace berth::cli
