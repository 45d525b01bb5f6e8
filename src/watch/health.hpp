// A device's health, check by check. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/device.hpp"

namespace berth::watch {

enum class Verdict : unsigned char { kOk, kFailed, kNotChecked };
/// "ok", "failed", "not checked": stable, for JSON.
[[nodiscard]] std::string_view name(Verdict verdict);

struct HealthCheck {
  std::string_view id;  // "answers", "memory_errors", "row_remap", "throttling", "temperature"
  Verdict verdict = Verdict::kNotChecked;
  std::string detail;  // the finding, translated; "": none
};
/// Always the same checks in the same order. A check without data from the driver is "not checked".
[[nodiscard]] std::vector<HealthCheck> health_of(const model::Device& device);
/// Failed if a check failed; ok if none did and the device answers.
[[nodiscard]] Verdict verdict_of(const std::vector<HealthCheck>& checks);

/// Above this a device is too hot, whatever its own limit is.
inline constexpr double kTooHot = 90;

}  // namespace berth::watch
