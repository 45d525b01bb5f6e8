#include "watch/usage_meter.hpp"

#include <doctest/doctest.h>

using namespace berth;
using namespace berth::watch;

namespace {

model::DeviceProcess process(const char* user, std::optional<double> share) {
  model::DeviceProcess one;
  one.device = 0;
  one.user = user;
  one.kind.compute = true;
  one.command = "/usr/bin/python3 train.py";
  one.memory_bytes = std::uint64_t{1} << 30U;
  if (share) one.sm_percent = *share;
  return one;
}

Frame frame_at(double seconds, std::uint64_t millijoules, std::vector<model::DeviceProcess> rows) {
  Frame frame;
  frame.seconds = seconds;
  model::Device device;
  device.index = 0;
  device.uuid = "GPU-1";
  device.readings.energy_millijoules = millijoules;
  frame.snapshot.devices.push_back(device);
  frame.snapshot.processes = std::move(rows);
  return frame;
}

}  // namespace

TEST_CASE("time, energy and memory are assigned to users, and add up to the device's") {
  UsageMeter meter;
  meter.add(frame_at(0, 0, {process("lin", 60.0), process("zhao", 20.0)}));
  meter.add(frame_at(1, 400'000, {process("lin", 60.0), process("zhao", 20.0)}));
  const auto usage = meter.take();
  REQUIRE(usage.size() == 2);
  const Usage& lin = usage.at({"GPU-1", "lin", 0, "python3"});
  const Usage& zhao = usage.at({"GPU-1", "zhao", 0, "python3"});
  CHECK(lin.held_seconds == doctest::Approx(1));
  CHECK(lin.used_seconds == doctest::Approx(0.6));
  CHECK(lin.energy_joules == doctest::Approx(300));
  CHECK(lin.energy_joules + zhao.energy_joules == doctest::Approx(400));
  CHECK(lin.memory_byte_seconds == doctest::Approx(1 << 30));
  CHECK(lin.idle_seconds == 0);
}

TEST_CASE("a user who holds a device without using it is idle, one with unknown use is not") {
  UsageMeter meter;
  meter.add(frame_at(0, 0, {process("idle", 0.0), process("unknown", std::nullopt)}));
  meter.add(frame_at(2, 0, {process("idle", 0.0), process("unknown", std::nullopt)}));
  const auto usage = meter.take();
  CHECK(usage.at({"GPU-1", "idle", 0, "python3"}).idle_seconds == doctest::Approx(2));
  CHECK(usage.at({"GPU-1", "unknown", 0, "python3"}).idle_seconds == 0);
  CHECK(usage.at({"GPU-1", "unknown", 0, "python3"}).known_seconds == 0);
  CHECK(usage.at({"GPU-1", "unknown", 0, "python3"}).held_seconds == doctest::Approx(2));
}

TEST_CASE("the guard's times go before the driver's shares, and add up to the device") {
  // Returns for how many seconds three users used a device during one second. The guard measures
  // lin and zhao, but not wang. The driver reports the use of the whole device (90 %) for each
  // user, as some drivers do.
  const auto used = [](std::optional<double> lin, std::optional<double> zhao) {
    std::vector rows = {process("lin", 90.0), process("zhao", 90.0), process("wang", 90.0)};
    rows[0].guard_percent = lin;
    rows[1].guard_percent = zhao;
    UsageMeter meter;
    meter.add(frame_at(0, 0, rows));
    meter.add(frame_at(1, 0, rows));
    const auto usage = meter.take();
    std::vector<double> seconds;
    for (const char* user : {"lin", "zhao", "wang"})
      seconds.push_back(usage.at({"GPU-1", user, 0, "python3"}).used_seconds);
    return seconds;
  };
  const auto is = [](const std::vector<double>& seconds, double lin, double zhao, double wang) {
    CHECK(seconds[0] == doctest::Approx(lin));
    CHECK(seconds[1] == doctest::Approx(zhao));
    CHECK(seconds[2] == doctest::Approx(wang));
  };
  is(used(std::nullopt, std::nullopt), 0.9, 0.9, 0.9);
  is(used(20, 50), 0.2, 0.5, 0.3);
  is(used(20, std::nullopt), 0.2, 0.4, 0.4);
  is(used(80, 120), 0.4, 0.6, 0);
  is(used(0, 5), 0, 0.05, 0.9);
}

TEST_CASE("a job whose time the guard measures may be known where the driver reports none") {
  UsageMeter meter;
  auto guarded = process("lin", std::nullopt);
  guarded.guard_percent = 30;
  meter.add(frame_at(0, 0, {guarded}));
  meter.add(frame_at(2, 0, {guarded}));
  const auto usage = meter.take();
  CHECK(usage.begin()->second.known_seconds == doctest::Approx(2));
  CHECK(usage.begin()->second.used_seconds == doctest::Approx(0.6));
}

TEST_CASE("gaps and restarts of the energy counter are not counted") {
  UsageMeter meter;
  meter.add(frame_at(0, 1'000, {process("lin", 50.0)}));
  meter.add(frame_at(3600, 2'000, {process("lin", 50.0)}));
  CHECK(meter.take().empty());
  meter.add(frame_at(3601, 10, {process("lin", 50.0)}));
  const auto usage = meter.take();
  CHECK(usage.at({"GPU-1", "lin", 0, "python3"}).energy_joules == 0);
}

TEST_CASE(
    "the peak, the device's memory and what the job asked for are kept, and unknown is absent") {
  UsageMeter meter;
  auto job = process("lin", 60.0), unknown = process("zhao", 20.0);
  job.job = 7;
  unknown.memory_bytes = model::Absence::kNoPermission;
  const auto frame = [&](double seconds, std::uint64_t bytes) {
    job.memory_bytes = bytes;
    Frame made = frame_at(seconds, 0, {job, unknown});
    made.snapshot.devices[0].readings.memory_total_bytes = std::uint64_t{80};
    return made;
  };
  const AskedMemory asked = {{7, 20}};
  meter.add(frame(0, 5), asked);
  meter.add(frame(1, 9), asked);
  meter.add(frame(2, 6), asked);
  const auto usage = meter.take();
  REQUIRE(usage.size() == 2);
  for (const auto& [key, one] : usage) {
    CHECK(one.device_memory_bytes == 80.0);
    if (key.job == 7) {
      CHECK(one.peak_memory_bytes == 9.0);
      CHECK(one.asked_memory_bytes == 20.0);
    } else {
      CHECK_FALSE(one.peak_memory_bytes);
      CHECK_FALSE(one.asked_memory_bytes);
    }
  }
}

TEST_CASE("a whole device is more than any part of one") {
  Usage part, whole, none;
  part.asked_memory_bytes = 20.0;
  whole.asked_memory_bytes = 0.0;
  part.add(none);
  CHECK(part.asked_memory_bytes == 20.0);
  part.add(whole);
  CHECK(part.asked_memory_bytes == 0.0);
}

TEST_CASE("memory without a process is held by nobody that is known, and its use is not known") {
  UsageMeter meter;
  const auto frame = [](double seconds, std::uint64_t bytes) {
    Frame made = frame_at(seconds, 0, {});
    model::Device& device = made.snapshot.devices[0];
    device.readings.memory_total_bytes = std::uint64_t{80} << 30U;
    device.readings.power_milliwatts = std::uint64_t{100'000};
    device.readings.energy_millijoules = model::Absence::kNotSupported;
    made.snapshot.unattributed = {{device.index, bytes, "zombie", {}}};
    return made;
  };
  meter.add(frame(0, std::uint64_t{20} << 30U));
  meter.add(frame(1, std::uint64_t{20} << 30U));
  meter.add(frame(2, std::uint64_t{2} << 30U));  // so little that it may belong to a desktop
  const auto usage = meter.take();
  REQUIRE(usage.size() == 1);
  const auto& [key, one] = *usage.begin();
  CHECK(key.user == kNoProcess);
  CHECK(one.held_seconds == 1);
  CHECK(one.known_seconds == 0);
  CHECK(one.peak_memory_bytes == static_cast<double>(std::uint64_t{20} << 30U));
  CHECK(one.energy_joules == 100);
}
