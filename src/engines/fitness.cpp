#include "engines/fitness.hpp"

namespace berth::engines {

std::optional<watch::HealthCheck> failed_check(const model::Device& device) {
  for (watch::HealthCheck& check : watch::health_of(device)) {
    if (check.id == "throttling" || check.id == "temperature") continue;
    if (check.verdict == watch::Verdict::kFailed) return std::move(check);
  }
  return std::nullopt;
}

std::string why_unfit(const model::Device& device) {
  const auto check = failed_check(device);
  if (!check) return "";
  return check->detail.empty() ? std::string(check->id) : check->detail;
}

}  // namespace berth::engines
