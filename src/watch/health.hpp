// A device's health, check by check. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/snapshot.hpp"

namespace berth::watch {

enum class Verdict : unsigned char { kOk, kFailed, kNotChecked };
/// The names "ok", "failed" and "not checked". They never change, because JSON output contains
/// them.
[[nodiscard]] std::string_view name(Verdict verdict);

struct HealthCheck {
  /// Name of the check: "answers", "memory_errors", "row_remap", "throttling", "temperature".
  std::string_view id;
  Verdict verdict = Verdict::kNotChecked;
  std::string detail;  // what was found, translated; "": nothing
};
/// Checks a device. The result always has the same checks in the same order. If the driver has no
/// data for a check, the check is "not checked".
[[nodiscard]] std::vector<HealthCheck> health_of(const model::Device& device);
/// Combines all checks: "failed" if any check failed. If none failed, the result of the check
/// "answers" ("ok" or "not checked").
[[nodiscard]] Verdict verdict_of(const std::vector<HealthCheck>& checks);

struct CheckedDevice {
  const model::Device* device;  // points into the snapshot
  std::vector<HealthCheck> checks;
};
/// Checks the named devices; all GPUs if `named` is empty. Fails with the errors of
/// model::select_devices, and with kNoDevice (E0987).
[[nodiscard]] Result<std::vector<CheckedDevice>> check_health(
    const model::Snapshot& snapshot, const std::vector<std::string>& named);
/// True if no check failed.
[[nodiscard]] bool is_well(const std::vector<CheckedDevice>& devices);

/// Degrees Celsius. From this temperature on, a device is too hot, even if its own limit is higher.
inline constexpr double kTooHot = 90;

}  // namespace berth::watch
