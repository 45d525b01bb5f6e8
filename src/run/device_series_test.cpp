#include "run/device_series.hpp"

#include <doctest/doctest.h>

using namespace berth;
using namespace berth::run;
using model::Absence;

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

/// The job starts at 500 ms.
DeviceSeries series_of(const model::Device& device, const std::string& partition = "") {
  DeviceSeries series(device, partition);
  series.start(500);
  return series;
}

std::optional<std::int64_t> our_pid(const model::DeviceProcess& one) {
  const std::int64_t pid = one.pid.value_or(0);
  return pid < 100 ? std::optional(pid) : std::nullopt;
}

}  // namespace

TEST_CASE("memory is that of our own processes, utilization that of the device") {
  DeviceSeries series = series_of(gpu());
  model::Device device = gpu();
  device.readings.utilization_percent = 40.0;
  series.add({device, {process(1, 100), process(2, 200), process(500, 9000)}, 1000}, our_pid);
  device.readings.utilization_percent = 80.0;
  CHECK(series.users_now().size() == 2);
  CHECK(series.users_now().back().bytes == 200);
  series.add({device, {process(1, 50)}, 2000}, our_pid);
  CHECK(series.users_now().size() == 1);
  CHECK(series.users_now().back().pid == 1);
  const auto use = series.use(Absence::kNoAnswer);
  CHECK(use.device == 3);
  CHECK(use.memory_peak_bytes.value == 300U);
  CHECK(use.utilization_mean_percent.value == 60.0);
  CHECK(use.utilization_peak_percent.value == 80.0);
  CHECK_FALSE(use.energy_millijoules);
  CHECK(series.listed());
  CHECK(series.samples() == 2);
}

TEST_CASE("without a sample everything is absent, not zero") {
  DeviceSeries series = series_of(gpu());
  const auto use = series.use(Absence::kNoAnswer);
  CHECK_FALSE(use.memory_peak_bytes);
  CHECK_FALSE(use.utilization_mean_percent);
  CHECK_FALSE(use.energy_millijoules);
  CHECK(use.memory_peak_bytes.why == Absence::kNoAnswer);
  CHECK(use.utilization_peak_percent.why == Absence::kNoAnswer);
  CHECK(use.energy_millijoules.why == Absence::kNoAnswer);
  CHECK_FALSE(series.listed());
}

TEST_CASE("energy is the counter's difference from before the start") {
  DeviceSeries series = series_of(gpu());
  model::Device device = gpu();
  device.readings.energy_millijoules = 5'000'000U;
  series.add({device, {}, 400}, our_pid);
  CHECK(series.samples() == 0);
  device.readings.energy_millijoules = 5'120'000U;
  series.add({device, {}, 2000}, our_pid);
  CHECK(series.use(Absence::kNoAnswer).energy_millijoules.value == 120'000U);
}

TEST_CASE("a counter that decreases or jumps gives no energy, never a negative or huge one") {
  DeviceSeries series = series_of(gpu());
  model::Device device = gpu();
  device.readings.power_milliwatts = 100'000U;
  const auto add = [&](std::uint64_t millijoules, std::int64_t when) {
    device.readings.energy_millijoules = millijoules;
    series.add({device, {}, when}, our_pid);
  };
  add(5'000'000, 1000);
  add(5'100'000, 2000);
  CHECK(series.use(Absence::kNoAnswer).energy_millijoules.value == 100'000U);
  SUBCASE("reset with the driver, and far from where it was") {
    add(1'000, 3000);
    CHECK(series.use(Absence::kNoAnswer).energy_millijoules.why == Absence::kFailed);
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
  CHECK_FALSE(series.use(Absence::kNoAnswer).energy_millijoules);
  CHECK(series.use(Absence::kNoAnswer).energy_millijoules.why == Absence::kFailed);
}

TEST_CASE("a counter that moves in steps counts neither as constant nor as jumping") {
  DeviceSeries series = series_of(gpu());
  model::Device device = gpu();
  const auto add = [&](std::uint64_t millijoules, std::int64_t when) {
    device.readings.energy_millijoules = millijoules;
    series.add({device, {}, when}, our_pid);
    return series.use(Absence::kNoAnswer).energy_millijoules;
  };
  CHECK(add(1'000'000, 1000).why == Absence::kTooShort);
  // the counter has not changed yet, so the energy is unknown, not 0
  CHECK_FALSE(add(1'000'000, 1010));
  // the counter rose by 70 J, the energy of 100 ms at 700 W, although only 10 ms have passed
  CHECK(add(1'070'000, 1020).value == 70'000U);
  CHECK(add(1'070'000, 1030).value == 70'000U);
}

TEST_CASE("a constant counter is not used") {
  DeviceSeries series = series_of(gpu());
  model::Device device = gpu();
  device.readings.energy_millijoules = 5'000'000U;
  for (const std::int64_t when : {400, 900, 1400, 1900}) series.add({device, {}, when}, our_pid);
  CHECK(series.use(Absence::kNoAnswer).energy_millijoules.why == Absence::kFailed);
}

TEST_CASE("without a counter, power is integrated over time") {
  DeviceSeries series = series_of(gpu());
  model::Device device = gpu();
  device.readings.power_milliwatts = 100'000U;
  series.add({device, {}, 400}, our_pid);
  device.readings.power_milliwatts = 300'000U;
  series.add({device, {}, 2400}, our_pid);
  CHECK(series.use(Absence::kNoAnswer).energy_millijoules.value == 400'000U);
  series.add({device, {}, 2000}, our_pid);  // a clock that was set back adds nothing
  CHECK(series.use(Absence::kNoAnswer).energy_millijoules.value == 400'000U);
  // a clock that was set forward adds nothing either
  series.add({device, {}, 86'402'000}, our_pid);
  CHECK(series.use(Absence::kNoAnswer).energy_millijoules.value == 400'000U);
  series.add({device, {}, 86'403'000}, our_pid);
  CHECK(series.use(Absence::kNoAnswer).energy_millijoules.value == 700'000U);
}

TEST_CASE("for a partition only its own memory counts") {
  DeviceSeries series = series_of(gpu(), "MIG-a");
  auto inside = process(1, 100);
  inside.partition_uuid = "MIG-a";
  auto beside = process(2, 700);
  beside.partition_uuid = "MIG-b";
  series.add({gpu(), {inside, beside}, 1000}, our_pid);
  CHECK(series.use(Absence::kNoAnswer).memory_peak_bytes.value == 100U);
  CHECK(series.use(Absence::kNoAnswer).uuid == "MIG-a");
}

TEST_CASE("samples of other devices are recognised by uuid, or else by address") {
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

TEST_CASE("a very short job has absent readings, not 0") {
  DeviceSeries series = series_of(gpu());
  model::Device device = gpu();
  device.readings.utilization_percent = 0.0;
  device.readings.energy_millijoules = 5'000'000U;
  SUBCASE("a sample from before the start is not a use by the job") {
    series.add({device, {process(1, 100)}, 490}, our_pid);
    CHECK(series.samples() == 0);
    CHECK(series.use(Absence::kNoAnswer).memory_peak_bytes.why == Absence::kTooShort);
  }
  SUBCASE("one right after it describes the time before") {
    series.add({device, {}, 550}, our_pid);
    CHECK(series.use(Absence::kNoAnswer).memory_peak_bytes.why == Absence::kNotSeen);
  }
  const auto use = series.use(Absence::kNoAnswer);
  CHECK(use.utilization_mean_percent.why == Absence::kTooShort);
  CHECK(use.utilization_peak_percent.why == Absence::kTooShort);
  CHECK(use.energy_millijoules.why == Absence::kTooShort);
}

TEST_CASE("a missing reading is absent with its reason") {
  DeviceSeries series = series_of(gpu());
  model::Device device = gpu();
  set_all_absent(device.readings, Absence::kNotSupported);
  auto silent = process(1, 0);
  silent.memory_bytes = Absence::kNoPermission;
  series.add({device, {silent}, 1000}, our_pid);
  const auto use = series.use(Absence::kNoAnswer);
  CHECK(use.memory_peak_bytes.why == Absence::kNoPermission);
  CHECK(use.utilization_mean_percent.why == Absence::kNotSupported);
  CHECK(use.energy_millijoules.why == Absence::kNotSupported);
  series.add({device, {silent, process(2, 70)}, 2000}, our_pid);
  CHECK(series.use(Absence::kNoAnswer).memory_peak_bytes.value == 70U);
}

TEST_CASE("a sample from after the end counts for the energy alone") {
  DeviceSeries series = series_of(gpu());
  model::Device device = gpu();
  device.readings.utilization_percent = 50.0;
  device.readings.energy_millijoules = 1'000U;
  series.add({device, {}, 1000}, our_pid);
  device.readings.utilization_percent = 0.0;
  device.readings.energy_millijoules = 4'000U;
  series.finish({device, {process(1, 10)}, 3000});
  const auto use = series.use(Absence::kNoAnswer);
  CHECK(use.utilization_mean_percent.value == 50.0);
  CHECK(use.energy_millijoules.value == 3'000U);
  CHECK_FALSE(use.memory_peak_bytes);
}

TEST_CASE("energy is counted from the job's start, also where the first sample comes later") {
  DeviceSeries series = series_of(gpu());
  model::Device device = gpu();
  SUBCASE("between an earlier reading and the first sample the counter grew evenly") {
    series.read_before(1'000'000, 0);
    device.readings.energy_millijoules = 1'100'000U;
    series.add({device, {}, 1000}, our_pid);
    CHECK(series.use(Absence::kNoAnswer).energy_millijoules.value == 50'000U);
    device.readings.energy_millijoules = 1'200'000U;
    series.finish({device, {}, 1500});
    CHECK(series.use(Absence::kNoAnswer).energy_millijoules.value == 150'000U);
  }
  SUBCASE("an earlier reading that cannot be is left aside") {
    series.read_before(9'000'000, 0);
    device.readings.energy_millijoules = 1'100'000U;
    series.add({device, {}, 1000}, our_pid);
    CHECK_FALSE(series.use(Absence::kNoAnswer).energy_millijoules);
  }
  SUBCASE("power of the first sample stands for the time since the start") {
    device.readings.power_milliwatts = 100'000U;
    series.add({device, {}, 1500}, our_pid);
    CHECK(series.use(Absence::kNoAnswer).energy_millijoules.value == 100'000U);
  }
}

TEST_CASE("strain has the memory controller, the bus and the reasons for low clocks") {
  DeviceSeries series = series_of(gpu());
  CHECK_FALSE(series.strain().memory_busy);
  CHECK_FALSE(series.strain().link_used);
  model::Device device = gpu();
  device.readings.memory_utilization_percent = 60.0;
  device.readings.pcie_generation = 4U;
  device.readings.pcie_width = 16U;
  device.readings.pcie_rx_bytes_per_second = 15'752'000'000U;
  device.readings.pcie_tx_bytes_per_second = 1U;
  device.throttle_reasons = {"sw_power_cap"};
  berth::inventory::DeviceSample sample{device, {}, 1000};
  sample.has_all = sample.has_throttle = true;
  series.add(sample, our_pid);
  sample.device.throttle_reasons = {"hw_thermal", "idle"};
  sample.unix_milliseconds = 2000;
  series.add(sample, our_pid);
  CHECK(series.strain().memory_busy == 0.6);
  CHECK(series.strain().link_used == doctest::Approx(0.5));
  CHECK(series.strain().slowed_by_power == 0.5);
  CHECK(series.strain().slowed_by_heat == 0.5);
  sample.device.readings.pcie_generation = 99U;
  series.add(sample, our_pid);
  CHECK(series.strain().link_used == doctest::Approx(0.5));
}
