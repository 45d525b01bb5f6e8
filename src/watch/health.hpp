// A device's health, check by check. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/snapshot.hpp"

namespace berth::watch {

enum class Verdict : unsigned char { kOk, kFailed, kNotChecked };
/// "ok", "failed" or "not checked". These names are stable, because JSON contains them.
[[nodiscard]] std::string_view name(Verdict verdict);

struct HealthCheck {
  std::string_view id;  // "answers", "memory_errors", "row_remap", "throttling", "temperature"
  Verdict verdict = Verdict::kNotChecked;
  std::string detail;  // the finding, translated; "": none
};
/// Always the same checks in the same order. A check without data from the driver is "not checked".
[[nodiscard]] std::vector<HealthCheck> health_of(const model::Device& device);
/// "failed" if a check failed; "ok" if no check failed and the device answers.
[[nodiscard]] Verdict verdict_of(const std::vector<HealthCheck>& checks);

struct CheckedDevice {
  const model::Device* device;  // the device in the snapshot
  std::vector<HealthCheck> checks;
};
/// The named devices, or all GPUs. Fails as model::select_devices, and with kNoDevice (E0987).
[[nodiscard]] Result<std::vector<CheckedDevice>> check_health(
    const model::Snapshot& snapshot, const std::vector<std::string>& named);
/// True if no check failed.
[[nodiscard]] bool is_well(const std::vector<CheckedDevice>& devices);

/// Above this a device is too hot, whatever its own limit is.
inline constexpr double kTooHot = 90;

}  // namespace berth::watch
