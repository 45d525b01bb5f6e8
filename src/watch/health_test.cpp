#include "watch/health.hpp"

#include <doctest/doctest.h>

using namespace berth;
using namespace berth::watch;
using model::Health;

namespace {

model::Device well() {
  model::Device device;
  device.health = Health::kOk;
  device.readings.memory_total_bytes = std::uint64_t{1} << 30U;
  device.readings.temperature_celsius = 60.0;
  device.readings.ecc_uncorrected = std::uint64_t{0};
  device.readings.remap_failed = device.readings.remap_pending = std::uint64_t{0};
  return device;
}

Verdict of(const model::Device& device, std::string_view id) {
  for (const HealthCheck& one : health_of(device))
    if (one.id == id) return one.verdict;
  return Verdict::kNotChecked;
}

}  // namespace

TEST_CASE("a device that answers and has no errors is ok") {
  for (const HealthCheck& one : health_of(well())) CHECK(one.verdict == Verdict::kOk);
  CHECK(verdict_of(health_of(well())) == Verdict::kOk);
}

TEST_CASE("missing readings count as not checked, which is not ok") {
  model::Device device = well();
  device.readings.ecc_uncorrected = model::Absence::kNotSupported;
  CHECK(of(device, "memory_errors") == Verdict::kNotChecked);
  CHECK(verdict_of(health_of(device)) == Verdict::kOk);
  CHECK(verdict_of(health_of(model::Device{})) == Verdict::kNotChecked);
}

TEST_CASE("each fault fails its own check and the device") {
  const auto fails = [](std::string_view id, auto&& break_it) {
    model::Device device = well();
    break_it(device);
    CHECK(of(device, id) == Verdict::kFailed);
    CHECK(verdict_of(health_of(device)) == Verdict::kFailed);
  };
  fails("answers", [](model::Device& device) { device.health = Health::kLost; });
  fails("answers", [](model::Device& device) { device.health = Health::kNoAnswer; });
  fails("memory_errors",
        [](model::Device& device) { device.readings.ecc_uncorrected = std::uint64_t{1}; });
  fails("row_remap",
        [](model::Device& device) { device.readings.remap_pending = std::uint64_t{1}; });
  fails("throttling",
        [](model::Device& device) { device.health_reasons = {"throttle:hw_thermal"}; });
  fails("temperature", [](model::Device& device) { device.readings.temperature_celsius = 95.0; });
}

TEST_CASE("a GPU that sleeps is neither ok nor failed") {
  model::Device device;
  device.health = Health::kAsleep;
  CHECK(verdict_of(health_of(device)) == Verdict::kNotChecked);
}
