#include "job/device_totals.hpp"

#include <doctest/doctest.h>

using namespace std::chrono_literals;
using berth::job::DeviceTotals;
using berth::model::Absence;
using berth::model::DeviceUse;

namespace {

DeviceUse use(int device, std::uint64_t peak, double mean, std::uint64_t energy) {
  DeviceUse one;
  one.device = device;
  one.uuid = "GPU-" + std::to_string(device);
  one.memory_peak_bytes = peak;
  one.utilization_mean_percent = mean;
  one.utilization_peak_percent = 2 * mean;
  one.energy_millijoules = energy;
  return one;
}

}  // namespace

TEST_CASE("two starts on one device have its larger peaks, the mean by time and all energy") {
  DeviceTotals totals;
  totals.add({use(0, 100, 10, 1000)}, 3s);
  totals.add({use(0, 50, 50, 500)}, 1s);
  REQUIRE(totals.devices().size() == 1);
  const DeviceUse& both = totals.devices().front();
  CHECK(*both.memory_peak_bytes == 100);
  CHECK(*both.utilization_mean_percent == doctest::Approx(20));
  CHECK(*both.utilization_peak_percent == doctest::Approx(100));
  CHECK(*both.energy_millijoules == 1500);
  CHECK(totals.wall() == 4s);
  CHECK(totals.held_seconds() == doctest::Approx(4));
}

TEST_CASE("a device that only an earlier start had stays, after those of the last start") {
  DeviceTotals totals;
  totals.add({use(0, 100, 10, 1000)}, 3s);
  totals.add({use(1, 50, 50, 500)}, 1s);
  REQUIRE(totals.devices().size() == 2);
  CHECK(totals.devices().front().device == 1);
  CHECK(totals.devices().back().device == 0);
}

TEST_CASE("energy that one start could not tell is not known, unless that start was too short") {
  DeviceUse silent = use(0, 100, 10, 0);
  silent.energy_millijoules = Absence::kNotSupported;
  DeviceTotals totals;
  totals.add({silent}, 3s);
  totals.add({use(0, 100, 10, 500)}, 3s);
  CHECK_FALSE(totals.devices().front().energy_millijoules);
  CHECK(totals.devices().front().energy_millijoules.why == Absence::kNotSupported);

  silent.energy_millijoules = Absence::kTooShort;
  DeviceTotals again;
  again.add({silent}, 100ms);
  again.add({use(0, 100, 10, 500)}, 3s);
  CHECK(*again.devices().front().energy_millijoules == 500);
}
