#include "run/device_series.hpp"

#include <doctest/doctest.h>

using namespace berth;
using namespace berth::run;

namespace {

model::Device gpu() {
  model::Device device;
  device.index = 3;
  device.name = "NVIDIA H100";
  device.uuid = "GPU-1";
  return device;
}

model::DeviceProcess process(std::int64_t pid, std::uint64_t bytes) {
  model::DeviceProcess out;
  out.pid = pid;
  out.memory_bytes = bytes;
  return out;
}

bool is_ours(const model::DeviceProcess& one) {
  return one.pid.value_or(0) < 100;
}

}  // namespace

TEST_CASE("memory is that of our own processes, utilization that of the device") {
  DeviceSeries series(gpu(), "");
  model::Device device = gpu();
  device.readings.utilization_percent = 40.0;
  series.add(device, {process(1, 100), process(2, 200), process(500, 9000)}, 1000, true, is_ours);
  device.readings.utilization_percent = 80.0;
  series.add(device, {process(1, 50)}, 2000, true, is_ours);
  const auto use = series.use();
  CHECK(use.device == 3);
  CHECK(use.memory_peak_bytes == 300U);
  CHECK(use.utilization_mean_percent == 60.0);
  CHECK(use.utilization_peak_percent == 80.0);
  CHECK_FALSE(use.energy_joules);
  CHECK(series.listed());
  CHECK(series.samples() == 2);
}

TEST_CASE("without a sample everything is absent, not zero") {
  DeviceSeries series(gpu(), "");
  CHECK_FALSE(series.use().memory_peak_bytes);
  CHECK_FALSE(series.use().utilization_mean_percent);
  CHECK_FALSE(series.use().energy_joules);
  CHECK_FALSE(series.listed());
}

TEST_CASE("energy is the counter's difference from before the start") {
  DeviceSeries series(gpu(), "");
  model::Device device = gpu();
  device.readings.energy_millijoules = 5'000'000U;
  series.add(device, {}, 1000, false, is_ours);
  CHECK(series.samples() == 0);
  device.readings.energy_millijoules = 5'120'000U;
  series.add(device, {}, 2000, true, is_ours);
  CHECK(series.use().energy_joules.value == 120.0);
}

TEST_CASE("a counter that went back or leapt tells nothing, and never a negative or huge energy") {
  DeviceSeries series(gpu(), "");
  model::Device device = gpu();
  device.readings.power_milliwatts = 100'000U;
  const auto add = [&](std::uint64_t millijoules, std::int64_t when) {
    device.readings.energy_millijoules = millijoules;
    series.add(device, {}, when, true, is_ours);
  };
  add(5'000'000, 1000);
  add(5'100'000, 2000);
  CHECK(series.use().energy_joules.value == 100.0);
  SUBCASE("reset with the driver, and far from where it was") {
    add(1'000, 3000);
    CHECK(series.use().energy_joules.why == model::Absence::kFailed);
    add(3'000, 4000);
  }
  SUBCASE("reset, and soon beyond where it was") {
    add(0, 3000);
    add(5'200'000, 600'000);
  }
  SUBCASE("nonsense ahead") {
    add(std::uint64_t{1} << 59U, 3000);
  }
  SUBCASE("nonsense ahead, from a clock that was set back") {
    add(5'100'000 + 20'000'000, 500);
  }
  CHECK_FALSE(series.use().energy_joules);
  CHECK(series.use().energy_joules.why == model::Absence::kFailed);
}

TEST_CASE("a counter that moves in steps is not taken for one that stands still, or leaps") {
  DeviceSeries series(gpu(), "");
  model::Device device = gpu();
  const auto add = [&](std::uint64_t millijoules, std::int64_t when) {
    device.readings.energy_millijoules = millijoules;
    series.add(device, {}, when, true, is_ours);
  };
  add(1'000'000, 1000);
  CHECK(series.use().energy_joules.why == model::Absence::kNeedsTwoReadings);
  add(1'000'000, 1010);  // no step yet: no energy is known, and it is not 0
  CHECK_FALSE(series.use().energy_joules);
  add(1'070'000, 1020);  // a step of 100 ms at 700 W, seen after 10 ms
  CHECK(series.use().energy_joules.value == 70.0);
  add(1'070'000, 1030);
  CHECK(series.use().energy_joules.value == 70.0);
}

TEST_CASE("energy that is absent says why") {
  DeviceSeries series(gpu(), "");
  CHECK(series.use().energy_joules.why == model::Absence::kNotAsked);
  model::Device device = gpu();
  device.readings.energy_millijoules = model::Absence::kNotSupported;
  series.add(device, {}, 1000, true, is_ours);
  CHECK(series.use().energy_joules.why == model::Absence::kNotSupported);
}

TEST_CASE("without a counter the power is added up over time") {
  DeviceSeries series(gpu(), "");
  model::Device device = gpu();
  device.readings.power_milliwatts = 100'000U;
  series.add(device, {}, 1000, false, is_ours);
  device.readings.power_milliwatts = 300'000U;
  series.add(device, {}, 3000, true, is_ours);
  CHECK(series.use().energy_joules.value == 400.0);
  series.add(device, {}, 2500, true, is_ours);  // a clock that was set back adds nothing
  CHECK(series.use().energy_joules.value == 400.0);
}

TEST_CASE("of a partition only its own memory counts") {
  DeviceSeries series(gpu(), "MIG-a");
  auto inside = process(1, 100);
  inside.partition_uuid = "MIG-a";
  auto beside = process(2, 700);
  beside.partition_uuid = "MIG-b";
  series.add(gpu(), {inside, beside}, 1000, true, is_ours);
  CHECK(series.use().memory_peak_bytes == 100U);
  CHECK(series.use().uuid == "MIG-a");
}

TEST_CASE("a sample of another device is told apart by uuid, else by address") {
  model::Device here = gpu();
  model::Device other = gpu();
  other.uuid = "GPU-2";
  CHECK(DeviceSeries(here, "").is_of(here));
  CHECK_FALSE(DeviceSeries(here, "").is_of(other));
  here.uuid = other.uuid = "";
  CHECK_FALSE(DeviceSeries(here, "").is_of(other));
  here.pci_address = other.pci_address = "0000:81:00.0";
  CHECK(DeviceSeries(here, "").is_of(other));
}
