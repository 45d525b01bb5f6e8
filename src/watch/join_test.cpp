#include "watch/join.hpp"

#include <doctest/doctest.h>

using namespace berth;
using namespace berth::watch;
using model::Absence;
using model::Health;

namespace {

model::Device gpu() {
  model::Device device;
  device.index = 0;
  device.uuid = "GPU-1";
  device.health = Health::kOk;
  device.readings.temperature_celsius = 40.0;
  device.readings.clock_sm_mhz = std::uint64_t{1500};
  return device;
}

inventory::DeviceSample sample() {
  inventory::DeviceSample one;
  one.device.uuid = "GPU-1";
  one.device.readings.temperature_celsius = 50.0;
  one.device.health = Health::kNotChecked;
  return one;
}

}  // namespace

TEST_CASE("a fast sample replaces what it read and leaves the rest") {
  model::Device device = gpu();
  join(sample(), device);
  CHECK(*device.readings.temperature_celsius == 50.0);
  CHECK(*device.readings.clock_sm_mhz == 1500);
  CHECK(device.health == Health::kOk);
}

TEST_CASE("partitions that can't be read any more are unknown, not none") {
  model::Device device = gpu();
  device.partitions.emplace_back();
  auto one = sample();
  one.has_all = true;
  one.device.partitions_unknown = Absence::kNoPermission;
  join(one, device);
  CHECK(device.partitions_unknown == Absence::kNoPermission);
}

TEST_CASE("a reading that the driver now refuses is absent") {
  model::Device device = gpu();
  auto one = sample();
  one.device.readings.temperature_celsius = Absence::kNoPermission;
  join(one, device);
  CHECK(device.readings.temperature_celsius.why == Absence::kNoPermission);
  CHECK_FALSE(device.readings.temperature_celsius);
}

TEST_CASE("throttling is shown at once, and its end keeps other reasons") {
  model::Device device = gpu();
  device.health = Health::kDegraded;
  device.health_reasons = {"ecc_uncorrected"};
  auto one = sample();
  one.has_throttle = true;
  one.device.throttle_reasons = {"hw_thermal"};
  one.device.health_reasons = {"throttle:hw_thermal"};
  join(one, device);
  CHECK(device.health_reasons ==
        std::vector<std::string>{"ecc_uncorrected", "throttle:hw_thermal"});
  one.device.throttle_reasons.clear();
  one.device.health_reasons.clear();
  join(one, device);
  CHECK(device.health_reasons == std::vector<std::string>{"ecc_uncorrected"});
  CHECK(device.health == Health::kDegraded);
}

TEST_CASE("a device that was lost keeps no reading") {
  model::Device device = gpu();
  auto one = sample();
  one.device.health = Health::kLost;
  set_all_absent(one.device.readings, Absence::kLost);
  join(one, device);
  CHECK(device.health == Health::kLost);
  CHECK(device.readings.clock_sm_mhz.why == Absence::kLost);
}

TEST_CASE("a silent device has an age and no readings, until it answers again") {
  model::Device device = gpu();
  mark_silent(7.5, device);
  CHECK(device.health == Health::kNoAnswer);
  CHECK(*device.age_seconds == 7.5);
  CHECK(device.readings.temperature_celsius.why == Absence::kNoAnswer);
  join(sample(), device);
  CHECK(device.health == Health::kNotChecked);
  CHECK_FALSE(device.age_seconds);
}

TEST_CASE("a utilization that stays 0 beside a working process becomes absent") {
  model::Snapshot snapshot;
  snapshot.devices.push_back(gpu());
  model::DeviceProcess process;
  process.device = 0;
  process.sm_percent = 80.0;
  snapshot.processes.push_back(process);
  Plausibility plausibility;
  for (int i = 0; i < 2; ++i) {
    snapshot.devices[0].readings.utilization_percent = 0.0;
    plausibility.check(snapshot);
    CHECK(snapshot.devices[0].readings.utilization_percent);
  }
  plausibility.check(snapshot);
  CHECK(snapshot.devices[0].readings.utilization_percent.why == Absence::kFailed);
  snapshot.devices[0].readings.utilization_percent = 70.0;
  plausibility.check(snapshot);
  CHECK(snapshot.devices[0].readings.utilization_percent);
}

TEST_CASE("a lost device keeps the uuid and the name that it had at its PCI address") {
  model::Snapshot before, now;
  before.devices.resize(2);
  before.devices[0].uuid = "GPU-1";
  before.devices[0].pci_address = "0000:01:00.0";
  before.devices[1].uuid = "GPU-2";
  before.devices[1].pci_address = "0000:02:00.0";
  before.devices[1].name = "NVIDIA H100 80GB HBM3";
  now = before;
  now.devices[1].uuid.clear();
  now.devices[1].name = "GH100 [H100 SXM5 80GB]";  // the name from pci.ids
  now.devices[1].health = model::Health::kLost;
  keep_identity(before, now);
  CHECK(now.devices[0].uuid == "GPU-1");
  CHECK(now.devices[1].uuid == "GPU-2");
  CHECK(now.devices[1].name == "NVIDIA H100 80GB HBM3");
  now.devices[1].uuid.clear();
  // A healthy device without uuid may be another card in the same slot.
  now.devices[1].health = model::Health::kOk;
  keep_identity(before, now);
  CHECK(now.devices[1].uuid.empty());
}
