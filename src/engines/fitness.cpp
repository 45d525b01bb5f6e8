#include "engines/fitness.hpp"

#include "watch/health.hpp"

namespace berth::engines {

std::string why_unfit(const model::Device& device) {
  for (const watch::HealthCheck& check : watch::health_of(device)) {
    if (check.id == "throttling" || check.id == "temperature") continue;
    if (check.verdict == watch::Verdict::kFailed)
      return check.detail.empty() ? std::string(check.id) : check.detail;
  }
  return "";
}

}  // namespace berth::engines
