#include "watch/health.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "model/device_selector.hpp"
#include "model/device_use.hpp"

namespace berth::watch {

namespace {

using model::Device;
using model::Health;

HealthCheck whether_it_answers(const Device& device) {
  switch (device.health) {
    case Health::kLost:
      return {"answers", Verdict::kFailed, text("the device fell off the bus")};
    case Health::kNoAnswer:
      return {"answers", Verdict::kFailed, text("the driver did not answer in time")};
    case Health::kAsleep:
      return {"answers", Verdict::kNotChecked, text("it is asleep, and was not woken")};
    default:
      break;
  }
  const bool has_any = device.readings.memory_total_bytes || device.readings.temperature_celsius ||
                       device.readings.utilization_percent;
  return {"answers", has_any ? Verdict::kOk : Verdict::kNotChecked, ""};
}

HealthCheck memory_errors(const Device& device) {
  const auto& errors = device.readings.ecc_uncorrected;
  if (!errors) return {"memory_errors", Verdict::kNotChecked, ""};
  if (*errors == 0) return {"memory_errors", Verdict::kOk, ""};
  return {"memory_errors", Verdict::kFailed,
          text_n("1 uncorrected memory error since the driver was loaded",
                 "{} uncorrected memory errors since the driver was loaded",
                 static_cast<long long>(*errors), *errors)};
}

HealthCheck row_remap(const Device& device) {
  const auto& failed = device.readings.remap_failed;
  const auto& pending = device.readings.remap_pending;
  if (failed.value_or(0) > 0)
    return {"row_remap", Verdict::kFailed, text("a memory row could not be remapped")};
  if (pending.value_or(0) > 0)
    return {"row_remap", Verdict::kFailed, text("a memory row waits for a reset to be remapped")};
  return {"row_remap", failed && pending ? Verdict::kOk : Verdict::kNotChecked, ""};
}

/// Checks only for throttling that protects the hardware; a configured power limit does not count.
HealthCheck throttling(const Device& device) {
  const auto has = [&](std::string_view reason) {
    return std::find(device.health_reasons.begin(), device.health_reasons.end(), reason) !=
           device.health_reasons.end();
  };
  if (has("throttle:hw_thermal"))
    return {"throttling", Verdict::kFailed, text("slowed down by heat")};
  if (has("throttle:hw_power_brake"))
    return {"throttling", Verdict::kFailed, text("slowed down by the power supply")};
  const bool was_asked = device.health == Health::kOk || device.health == Health::kDegraded;
  return {"throttling", was_asked ? Verdict::kOk : Verdict::kNotChecked, ""};
}

HealthCheck temperature(const Device& device) {
  const auto& now = device.readings.temperature_celsius;
  if (!now) return {"temperature", Verdict::kNotChecked, ""};
  return {"temperature", *now >= kTooHot ? Verdict::kFailed : Verdict::kOk,
          fmt::format("{:.0f} °C", *now)};
}

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kFailed:
      return "failed";
    case Verdict::kNotChecked:
      break;
  }
  return "not checked";
}

std::vector<HealthCheck> health_of(const Device& device) {
  return {whether_it_answers(device), memory_errors(device), row_remap(device), throttling(device),
          temperature(device)};
}

Verdict verdict_of(const std::vector<HealthCheck>& checks) {
  for (const HealthCheck& one : checks)
    if (one.verdict == Verdict::kFailed) return Verdict::kFailed;
  return checks.empty() ? Verdict::kNotChecked : checks.front().verdict;
}

Result<std::vector<CheckedDevice>> check_health(const model::Snapshot& snapshot,
                                                const std::vector<std::string>& named) {
  std::vector<int> wanted;
  if (!named.empty()) {
    const auto selected = model::select_devices(snapshot.devices, named);
    if (!selected) return selected.error();
    for (const model::Selected& one : *selected) wanted.push_back(one.device);
  }
  std::vector<CheckedDevice> checked;
  for (const Device& device : snapshot.devices) {
    const bool is_wanted =
        wanted.empty() ? model::is_gpu(device) && (device.managed || model::out_of_reach(device))
                       : std::find(wanted.begin(), wanted.end(), device.index) != wanted.end();
    if (is_wanted) checked.push_back({&device, health_of(device)});
  }
  if (checked.empty())
    return Error{ErrorCode::kNoDevice, "E0987",
                 snapshot.driver.message.empty() ? text("there is no GPU to check")
                                                 : snapshot.driver.message,
                 snapshot.driver.hint.empty() ? "berth doctor" : snapshot.driver.hint};
  return checked;
}

bool is_well(const std::vector<CheckedDevice>& devices) {
  return std::none_of(devices.begin(), devices.end(), [](const CheckedDevice& one) {
    return verdict_of(one.checks) == Verdict::kFailed;
  });
}

}  // namespace berth::watch
