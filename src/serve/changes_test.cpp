#include "serve/changes.hpp"

#include <doctest/doctest.h>

using namespace berth;
using namespace berth::serve;

namespace {

constexpr Windows kWindows = {600, 900, 900, 1200};

watch::DeviceHistory device_with(double before, double after) {
  watch::DeviceHistory device;
  device.key = "GPU-1";
  device.index = 3;
  for (std::int64_t time = 500; time < 1300; ++time) {
    watch::Moment moment;
    moment[static_cast<std::size_t>(watch::Series::kUtilization)] = time < 900 ? before : after;
    device.moments.emplace_back(time, moment);
  }
  return device;
}

watch::UsageRow used_at(std::int64_t from, const char* program) {
  watch::UsageRow row;
  row.from = from;
  row.key = {"GPU-1", "lin", 7, program};
  row.usage.held_seconds = 60;
  return row;
}

const std::optional<double>& use(const watch::Moment& moment) {
  return moment[static_cast<std::size_t>(watch::Series::kUtilization)];
}

}  // namespace

TEST_CASE("readings are compared by their means before and after") {
  const auto changes = changes_between({{device_with(90, 10)}, {}, {}}, kWindows);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].index == 3);
  CHECK(*use(changes[0].before) == 90);
  CHECK(*use(changes[0].after) == 10);
  const auto& power = changes[0].before[static_cast<std::size_t>(watch::Series::kPower)];
  CHECK_FALSE(power);
}

TEST_CASE("only differences that matter are notable, and a reading that went absent is one") {
  using watch::Series;
  CHECK(is_notable(Series::kUtilization, 90, 10));
  CHECK_FALSE(is_notable(Series::kUtilization, 90, 85));
  CHECK(is_notable(Series::kClockSm, 1980, 1400));
  CHECK_FALSE(is_notable(Series::kPower, 20'000, 25'000));
  CHECK(is_notable(Series::kPower, 300'000, 100'000));
  CHECK(is_notable(Series::kTemperature, 60.0, std::nullopt));
  CHECK_FALSE(is_notable(Series::kTemperature, std::nullopt, std::nullopt));
}

TEST_CASE("processes that began and ended are found, and those that stayed are not") {
  Recorded recorded{{device_with(1, 1)}, {}, {}};
  for (std::int64_t minute = 600; minute < 1200; minute += 60)
    recorded.usage.push_back(used_at(minute, "stays"));
  recorded.usage.push_back(used_at(660, "ends"));
  recorded.usage.push_back(used_at(1080, "begins"));
  recorded.usage.push_back(used_at(300, "long ago"));
  const auto changes = changes_between(recorded, kWindows);
  const auto& processes = changes[0].processes;
  REQUIRE(processes.size() == 2);
  CHECK(processes[0].key.program == "ends");
  CHECK_FALSE(processes[0].is_new);
  CHECK(processes[1].key.program == "begins");
  CHECK(processes[1].is_new);
}

TEST_CASE("the minute of the change itself belongs to neither side") {
  Recorded recorded{{device_with(1, 1)}, {used_at(840, "ends"), used_at(900, "ends")}, {}};
  const auto processes = changes_between(recorded, {610, 910, 910, 1210})[0].processes;
  REQUIRE(processes.size() == 1);
  CHECK_FALSE(processes[0].is_new);
}

TEST_CASE("conditions of periods of unequal length are compared by the minute") {
  Recorded recorded{{device_with(1, 1)}, {used_at(840, "ends")}, {}};
  for (std::int64_t minute = 600; minute < 900; minute += 60)
    recorded.conditions.push_back({minute, "GPU-1", "throttle:hw_thermal", 30});
  recorded.conditions.push_back({900, "GPU-1", "throttle:hw_thermal", 30});
  recorded.conditions.push_back({900, "GPU-1", "xid:79", 2});
  auto changes = changes_between(recorded, {600, 900, 900, 970})[0];
  REQUIRE(changes.conditions.size() == 2);
  CHECK(changes.conditions[0].before == 30);
  CHECK(changes.conditions[0].after == 30);
  CHECK(changes.conditions[1].before == 0);
  CHECK(changes.conditions[1].after == 2);
  changes = changes_between(recorded, {600, 900, 900, 950})[0];
  REQUIRE(changes.conditions.size() == 1);
  CHECK(changes.conditions[0].before == 30);
  // The second period has no whole minute, so the condition's value in it is not known.
  CHECK_FALSE(changes.conditions[0].after);
  CHECK(changes.processes.empty());
}

TEST_CASE("seconds that were not recorded do not count as seconds without the condition") {
  Recorded recorded{{device_with(1, 1)}, {used_at(1080, "runs")}, {}};
  auto& moments = recorded.devices[0].moments;
  // Of the five minutes before, only 90 s were recorded, and the device was throttled during all of
  // these 90 s.
  std::erase_if(moments, [](const auto& one) { return one.first < 810; });
  recorded.conditions = {{780, "GPU-1", "throttle:hw_thermal", 30},
                         {840, "GPU-1", "throttle:hw_thermal", 60},
                         {960, "GPU-1", "throttle:hw_thermal", 60}};
  auto changes = changes_between(recorded, kWindows)[0];
  CHECK(changes.recorded_before == 90);
  CHECK(changes.recorded_after == 300);
  REQUIRE(changes.conditions.size() == 1);
  CHECK(changes.conditions[0].before == 60);
  CHECK(changes.conditions[0].after == 12);
  REQUIRE(changes.processes.size() == 1);
  // Now less than a minute before was recorded. So it is not known whether the process "runs" is
  // new.
  std::erase_if(moments, [](const auto& one) { return one.first < 860; });
  changes = changes_between(recorded, kWindows)[0];
  CHECK_FALSE(changes.conditions[0].before);
  CHECK(changes.conditions[0].after == 12);
  CHECK(changes.processes.empty());
}

TEST_CASE("a lost device was recorded, although it has no readings") {
  Recorded recorded{{device_with(1, 1)}, {}, {}};
  std::erase_if(recorded.devices[0].moments, [](const auto& one) { return one.first >= 930; });
  recorded.conditions = {{900, "GPU-1", "lost", 30}};
  for (std::int64_t minute = 960; minute < 1200; minute += 60)
    recorded.conditions.push_back({minute, "GPU-1", "lost", 60});
  const auto changes = changes_between(recorded, kWindows)[0];
  REQUIRE(changes.conditions.size() == 1);
  CHECK(changes.conditions[0].before == 0);
  CHECK(changes.conditions[0].after == 54);
}

TEST_CASE("conditions are kept by device and side") {
  Recorded recorded{{device_with(1, 1)}, {}, {}};
  recorded.conditions = {{840, "GPU-1", "throttle:hw_thermal", 5},
                         {960, "GPU-1", "throttle:hw_thermal", 60},
                         {1020, "GPU-1", "throttle:hw_thermal", 60},
                         {1020, "GPU-2", "lost", 60},
                         {1260, "GPU-1", "xid:79", 1}};
  const auto conditions = changes_between(recorded, kWindows)[0].conditions;
  REQUIRE(conditions.size() == 1);
  CHECK(conditions[0].before == 1);
  CHECK(conditions[0].after == 24);
}

TEST_CASE("a device whose last readings are missing while another has some is silent since then") {
  Recorded recorded{{device_with(50, 50), device_with(50, 50)}, {}, {}};
  recorded.devices[1].key = "cpu";
  auto& moments = recorded.devices[0].moments;
  CHECK_FALSE(has_other_state(changes_between(recorded, kWindows)[0]));
  // Remove the readings from 930 on, when the device is lost. Its readings from 900 to 930 have the
  // same mean as those before 900.
  std::erase_if(moments, [](const auto& one) { return one.first >= 930; });
  recorded.conditions = {{900, "GPU-1", "lost", 30}, {960, "GPU-2", "no_answer", 60}};
  auto changes = changes_between(recorded, kWindows);
  CHECK(use(changes[0].after) == use(changes[0].before));
  CHECK(has_other_state(changes[0]));
  CHECK(changes[0].silent_after == Silence{930, "lost"});
  CHECK_FALSE(changes[1].silent_after);
  // The reason is unknown if no condition was recorded, for example because the user lost the
  // permission.
  recorded.conditions.clear();
  CHECK(changes_between(recorded, kWindows)[0].silent_after == Silence{930, ""});
}

TEST_CASE("a device that answers again has another state, and late readings are no silence") {
  Recorded recorded{{device_with(50, 50), device_with(50, 50)}, {}, {}};
  recorded.devices[1].key = "cpu";
  auto& moments = recorded.devices[0].moments;
  std::erase_if(moments, [](const auto& one) { return one.first >= 1197 && one.first < 1200; });
  CHECK_FALSE(changes_between(recorded, kWindows)[0].silent_after);
  std::erase_if(moments, [](const auto& one) { return one.first < 920; });
  recorded.conditions = {{840, "GPU-1", "no_answer", 60}};
  const auto changes = changes_between(recorded, kWindows)[0];
  CHECK(has_other_state(changes));
  CHECK(changes.silent_before == Silence{600, "no_answer"});
}

TEST_CASE("a broker that recorded nothing at the end of a period makes no device silent") {
  Recorded recorded{{device_with(50, 50)}, {}, {}};
  std::erase_if(recorded.devices[0].moments, [](const auto& one) { return one.first >= 930; });
  CHECK_FALSE(changes_between(recorded, kWindows)[0].silent_after);
}
