#include "watch/alerts.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace berth;
using namespace berth::watch;
using model::Health;

namespace {

Frame frame_at(double seconds, const model::Device& device) {
  Frame frame;
  frame.seconds = seconds;
  frame.snapshot.unix_milliseconds = static_cast<std::int64_t>(1'700'000'000'000 + seconds * 1000);
  frame.snapshot.devices.push_back(device);
  return frame;
}

model::Device gpu() {
  model::Device device;
  device.index = 3;
  device.uuid = "GPU-1";
  device.health = Health::kOk;
  device.readings.temperature_celsius = 60.0;
  return device;
}

}  // namespace

TEST_CASE("a device that is lost or silent is reported at once, or as late as the settings say") {
  for (const double patience : {kDownSeconds, 5.0})
    for (const Health health : {Health::kLost, Health::kNoAnswer}) {
      AlertRules rules = built_in_alert_rules();
      for (AlertRule& rule : rules)
        if (rule.name == "device_down") rule.seconds = patience;
      AlertWatch watch({}, rules);
      model::Device device = gpu();
      CHECK(watch.add(frame_at(0, device)).begun.empty());
      device.health = health;
      CHECK(watch.add(frame_at(1, device)).begun.size() == (patience == kDownSeconds ? 1 : 0));
      CHECK(watch.add(frame_at(6, device)).begun.size() == (patience == kDownSeconds ? 0 : 1));
    }
}

TEST_CASE("a device that gives no answer is reported once, and so is its return") {
  AlertWatch watch;
  model::Device device = gpu();
  CHECK(watch.add(frame_at(0, device)).begun.empty());
  device.health = Health::kNoAnswer;
  const auto begun = watch.add(frame_at(2, device)).begun;
  REQUIRE(begun.size() == 1);
  CHECK(begun[0].rule == "device_down");
  CHECK(begun[0].message == "GPU 3 is lost or does not answer");
  CHECK(watch.add(frame_at(3, device)).begun.empty());
  CHECK(watch.active().size() == 1);
  device.health = Health::kOk;
  CHECK(watch.add(frame_at(4, device)).ended.size() == 1);
  CHECK(watch.active().empty());
}

TEST_CASE("a heat alert needs lasting heat, and ends only clearly below the limit") {
  AlertWatch watch;
  model::Device device = gpu();
  double at = 0;
  const auto feel = [&](double celsius, double seconds) {
    device.readings.temperature_celsius = celsius;
    at += seconds;
    return watch.add(frame_at(at, device));
  };
  feel(95, 1);
  feel(60, 1);
  CHECK(feel(95, 100).begun.empty());
  CHECK(feel(95, 61).begun.size() == 1);
  CHECK(feel(88, 1).ended.empty());
  CHECK(feel(80, 1).ended.size() == 1);
}

TEST_CASE("an absent reading does not change an alert") {
  AlertWatch watch;
  model::Device device = gpu();
  device.readings.ecc_uncorrected = std::uint64_t{2};
  CHECK(watch.add(frame_at(0, device)).begun.size() == 1);
  device.readings.ecc_uncorrected = model::Absence::kNoAnswer;
  const auto changes = watch.add(frame_at(1, device));
  CHECK(changes.ended.empty());
  CHECK(watch.active().size() == 1);
}

TEST_CASE("a user who holds memory and is known to be idle is reported after an hour") {
  AlertWatch watch;
  model::DeviceProcess process;
  process.device = 3;
  process.user = "zhao";
  process.kind.compute = true;
  process.memory_bytes = std::uint64_t{34} << 30U;
  process.sm_percent = 0.0;
  const auto after = [&](double seconds) {
    Frame frame = frame_at(seconds, gpu());
    frame.snapshot.processes.push_back(process);
    return watch.add(frame);
  };
  CHECK(after(0).begun.empty());
  CHECK(after(3500).begun.empty());
  const auto begun = after(3601).begun;
  REQUIRE(begun.size() == 1);
  CHECK(begun[0].user == "zhao");
  process.sm_percent = 40.0;
  CHECK(after(3602).ended.size() == 1);
  process.sm_percent = model::Absence::kNotSupported;
  CHECK(after(3603).begun.empty());
  CHECK(after(9000).begun.empty());
  process.sm_percent = 0.0;
  process.guard_percent = 40;  // the guard has measured use that the driver does not show
  CHECK(after(9001).begun.empty());
  CHECK(after(20'000).begun.empty());
}

TEST_CASE("a process whose uid is not known has no owner to notify, least of all root") {
  AlertWatch watch;
  Frame frame = frame_at(0, gpu());
  for (const char* user : {"lin", "zhao"}) {
    model::DeviceProcess& process = frame.snapshot.processes.emplace_back();
    process.device = 3;
    process.pid = 77;
    process.user = user;
    process.kind.compute = true;
  }
  frame.snapshot.processes[1].uid = 1002;
  frame.snapshot.devices[0].readings.remap_failed = std::uint64_t{1};
  const auto begun = watch.add(frame).begun;
  REQUIRE(begun.size() == 1);
  REQUIRE(begun[0].owners.size() == 1);
  CHECK(begun[0].owners[0].user == "zhao");
  CHECK(begun[0].owners[0].uid == 1002);
}

TEST_CASE("a lost device that no longer tells its uuid keeps its one alert") {
  AlertWatch watch;
  model::Device device = gpu();
  device.pci_address = "0000:c3:00.0";
  CHECK(watch.add(frame_at(0, device)).begun.empty());
  device.health = Health::kLost;
  CHECK(watch.add(frame_at(1, device)).begun.size() == 1);
  device.uuid.clear();
  for (const double second : {3, 4, 5, 6}) {
    const auto changes = watch.add(frame_at(second, device));
    CHECK(changes.begun.empty());
    CHECK(changes.ended.empty());
  }
  REQUIRE(watch.active().size() == 1);
  CHECK(watch.active()[0].device == "GPU-1");
  device.uuid = "GPU-1";
  device.health = Health::kOk;
  CHECK(watch.add(frame_at(7, device)).ended.size() == 1);
}

TEST_CASE("a device that was lost before the daemon started ends its alert when it is back") {
  AlertWatch watch;
  model::Device device = gpu();
  device.pci_address = "0000:c3:00.0";
  device.uuid.clear();
  device.health = Health::kLost;
  CHECK(watch.add(frame_at(0, device)).begun.size() == 1);
  CHECK(watch.add(frame_at(1, device)).begun.empty());
  device.uuid = "GPU-1";
  device.health = Health::kOk;
  CHECK(watch.add(frame_at(2, device)).ended.size() == 1);
  CHECK(watch.active().empty());
}

TEST_CASE("a device that disappears is down until it is seen again and well") {
  AlertWatch watch;
  model::Device device = gpu();
  device.readings.remap_failed = std::uint64_t{1};
  CHECK(watch.add(frame_at(0, device)).begun.size() == 1);
  Frame without;
  without.seconds = 1;
  CHECK(watch.add(without).ended.empty());
  without.seconds = 2;
  const auto begun = watch.add(without).begun;
  REQUIRE(begun.size() == 1);
  CHECK(begun[0].rule == "device_down");
  CHECK(begun[0].index == 3);
  without.seconds = 3;
  CHECK(watch.add(without).ended.empty());
  CHECK(watch.active().size() == 2);
  device.health = Health::kLost;
  CHECK(watch.add(frame_at(4, device)).ended.empty());
  device.health = Health::kOk;
  device.readings.remap_failed = std::uint64_t{0};
  CHECK(watch.add(frame_at(5, device)).ended.size() == 2);
}

TEST_CASE("a device that another kernel driver took has no alerts") {
  AlertWatch watch;
  model::Device device = gpu();
  device.readings.remap_failed = std::uint64_t{1};
  CHECK(watch.add(frame_at(0, device)).begun.size() == 1);
  device.managed = false;
  CHECK(watch.add(frame_at(1, device)).ended.size() == 1);
  CHECK(watch.active().empty());
}

TEST_CASE("an alert that an earlier program reported is not told again, but its end is") {
  model::Device device = gpu();
  device.pci_address = "0000:c3:00.0";
  device.health = Health::kLost;
  AlertWatch first;
  CHECK(first.add(frame_at(0, device)).begun.size() == 1);
  AlertWatch second;
  second.restore(first.active());
  device.uuid.clear();
  for (const double second_of : {100, 101, 102}) {
    const auto changes = second.add(frame_at(second_of, device));
    CHECK(changes.begun.empty());
    CHECK(changes.ended.empty());
  }
  REQUIRE(second.active().size() == 1);
  CHECK(second.active()[0].device == "GPU-1");
  device.health = Health::kOk;
  CHECK(second.add(frame_at(103, device)).ended.size() == 1);
  AlertWatch third;  // the device was removed before `third` was created
  third.restore(first.active());
  Frame without;
  without.seconds = 200;
  CHECK(third.add(without).ended.empty());
  CHECK(third.active().size() == 1);
}

TEST_CASE("all owners of a device are known again, and an Xid that is switched off ends") {
  Alert lost;
  lost.rule = "hot";
  lost.device = "GPU-1";
  lost.place = "0000:c3:00.0";
  lost.index = 3;
  lost.owners = {{"lin", 1001, {77}}, {"zhao", 1002, {78}}};
  Alert idle = lost;
  idle.rule = "idle_while_holding_memory";
  idle.user = "zhao";
  idle.owners.erase(idle.owners.begin());
  Alert xid = lost;
  xid.rule = "xid_43";
  xid.since_unix_milliseconds = 1'700'000'000'000;
  AlertRules rules = built_in_alert_rules();
  AlertRule& off = rules.emplace_back();
  off.name = "xid_43";
  off.kind = AlertRule::Kind::kXid;
  off.is_on = false;
  AlertWatch watch({}, rules);
  watch.restore({lost, xid, idle});
  Frame without;
  without.snapshot.unix_milliseconds = xid.since_unix_milliseconds + 1000;
  without.seconds = 1;
  const auto ended = watch.add(without).ended;
  CHECK(std::count_if(ended.begin(), ended.end(),
                      [](const Alert& one) { return one.rule == "xid_43"; }) == 1);
  without.seconds = 3;
  const auto begun = watch.add(without).begun;
  REQUIRE(begun.size() == 1);
  CHECK(begun[0].rule == "device_down");
  CHECK(begun[0].owners.size() == 2);
}

TEST_CASE("an Xid is one alert, from whichever source, until an hour after the last one") {
  AlertWatch watch([](int code) {
    return code == 79 ? XidWords{"critical", "GPU fell off the bus"} : XidWords{};
  });
  model::Device device = gpu();
  device.pci_address = "0000:c3:00.0";
  const auto at = [&](double seconds, std::vector<model::XidEvent> xids) {
    Frame frame = frame_at(seconds, device);
    for (model::XidEvent& one : xids) one.unix_milliseconds = frame.snapshot.unix_milliseconds;
    frame.xids = std::move(xids);
    return watch.add(frame);
  };
  const auto begun = at(0, {{"0000:c3:00.0", 79, 0}, {"0000:c3:00", 79, 0}}).begun;
  REQUIRE(begun.size() == 1);
  CHECK(begun[0].rule == "xid_79");
  CHECK(begun[0].severity == "critical");
  CHECK(begun[0].message == "GPU 3 reported Xid 79: GPU fell off the bus");
  CHECK(begun[0].device == "GPU-1");
  CHECK(at(1, {{"0000:c3:00", 31, 0}}).begun.at(0).severity == "warning");
  // This machine has no device with these addresses.
  CHECK(at(2, {{"0000:d4:00", 79, 0}, {"", 79, 0}}).begun.empty());
  CHECK(at(3000, {{"0000:c3:00", 79, 0}}).begun.empty());
  const auto ended = at(4000, {}).ended;
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].rule == "xid_31");
  CHECK(at(6599, {}).ended.empty());
  CHECK(at(6601, {}).ended.size() == 1);
  CHECK(watch.active().empty());
}

TEST_CASE("an Xid that came again ends an hour after the last time, also after a restart") {
  model::Device device = gpu();
  device.pci_address = "0000:c3:00.0";
  const auto at = [&](AlertWatch& watch, double seconds, bool has_xid) {
    Frame frame = frame_at(seconds, device);
    if (has_xid) frame.xids = {{"0000:c3:00", 79, frame.snapshot.unix_milliseconds}};
    return watch.add(frame);
  };
  AlertWatch first;
  CHECK_FALSE(at(first, 0, true).is_longer);
  CHECK(at(first, 3000, true).is_longer);
  AlertWatch second;
  second.restore(first.active());
  const auto changes = at(second, 4000, false);
  CHECK(changes.begun.empty());
  CHECK(changes.ended.empty());
  CHECK(at(second, 6599, false).ended.empty());
  CHECK(at(second, 6601, false).ended.size() == 1);
}

TEST_CASE("memory without a process is reported after a while, unless the processes are unknown") {
  for (const bool is_known : {true, false}) {
    AlertWatch watch;
    model::Device device = gpu();
    device.readings.memory_total_bytes = std::uint64_t{80} << 30U;
    device.readings.memory_used_bytes = std::uint64_t{20} << 30U;
    if (!is_known) device.processes_unknown = model::Absence::kNoPermission;
    const auto frame = [&](double seconds) {
      Frame made = frame_at(seconds, device);
      made.snapshot.unattributed = {
          {device.index, std::uint64_t{20} << 30U, is_known ? "zombie" : "list_unknown", {}}};
      return made;
    };
    CHECK(watch.add(frame(0)).begun.empty());
    CHECK(watch.add(frame(800)).begun.empty());
    const auto begun = watch.add(frame(901)).begun;
    REQUIRE(begun.size() == (is_known ? 1 : 0));
    if (is_known) CHECK(begun[0].rule == "memory_without_process");
    CHECK(watch.add(frame_at(902, device)).ended.size() == (is_known ? 1 : 0));
  }
}

TEST_CASE("a job that waits long is an alert of the machine, and survives a restart") {
  AlertWatch watch;
  CHECK(watch.add(frame_at(0, gpu()), 3599).begun.empty());
  const auto begun = watch.add(frame_at(1, gpu()), 3600).begun;
  REQUIRE(begun.size() == 1);
  CHECK(begun[0].rule == "queue_waits");
  CHECK(begun[0].index == -1);
  CHECK(watch.add(frame_at(2, gpu()), 3700).begun.empty());
  AlertWatch later;
  later.restore(watch.active());
  const auto changes = later.add(frame_at(3, gpu()), 3800);
  CHECK(changes.begun.empty());
  CHECK(changes.ended.empty());
  CHECK(later.add(frame_at(4, gpu()), 0).ended.size() == 1);
  CHECK(later.add(frame_at(100, gpu()), 0)
            .begun.empty());  // the machine's alert does not count as a lost device
}

TEST_CASE("a sampler that makes no frames is an alert until the next frame") {
  AlertWatch watch;
  CHECK(watch.add(frame_at(0, gpu())).begun.empty());
  CHECK(watch.add_silence(29, 1).begun.empty());
  CHECK(watch.add_silence(30, 1).begun.size() == 1);
  CHECK(watch.add_silence(31, 1).begun.empty());
  CHECK(watch.active().size() == 1);
  CHECK(watch.add(frame_at(40, gpu())).ended.size() == 1);
}

TEST_CASE("jobs whose memory grows are reported each, after an hour of growth") {
  AlertWatch watch;
  std::vector<Alert> begun, ended;
  for (int second = 0; second < 2 * 3600; second += 30) {
    model::Device device = gpu();
    device.readings.memory_total_bytes = std::uint64_t{80} << 30U;
    const std::uint64_t each =
        (std::uint64_t{5} << 30U) + static_cast<std::uint64_t>(second) * 5'000'000;
    device.readings.memory_used_bytes = 2 * each;
    Frame frame = frame_at(second, device);
    for (const std::uint64_t job : {7U, 8U}) {
      model::DeviceProcess process;
      process.device = device.index;
      process.user = "lin";
      process.job = job;
      process.memory_bytes = each;
      if (second < 6600) frame.snapshot.processes.push_back(process);
    }
    const auto changes = watch.add(frame);
    for (const Alert& one : changes.begun) begun.push_back(one);
    for (const Alert& one : changes.ended) ended.push_back(one);
    if (second < 3600) CHECK(begun.empty());
  }
  REQUIRE(begun.size() == 2);
  CHECK(begun[0].rule == "job_memory_grows");
  CHECK(begun[0].job == 7);
  CHECK(begun[1].job == 8);
  CHECK(ended.size() == 2);
}

TEST_CASE("a job that has worked and stands still is reported, for as long as it does") {
  AlertWatch watch;
  double share = 90;
  const auto at = [&](AlertWatch& by, double seconds) {
    Frame frame = frame_at(seconds, gpu());
    for (const std::uint64_t job : {7U, 8U}) {
      model::DeviceProcess& process = frame.snapshot.processes.emplace_back();
      process.device = 3;
      process.pid = 77;
      process.uid = 1001;
      process.user = "lin";
      process.job = job;
      process.sm_percent = job == 7 ? share : 90.0;
    }
    return by.add(frame);
  };
  at(watch, 0);
  share = 0;
  CHECK(at(watch, 10).begun.empty());
  CHECK(at(watch, 1800).begun.empty());
  const auto begun = at(watch, 1811).begun;
  REQUIRE(begun.size() == 1);
  CHECK(begun[0].rule == "job_hangs");
  CHECK(begun[0].severity == "warning");
  CHECK(begun[0].job == 7);
  CHECK(begun[0].index == -1);
  CHECK(begun[0].message == "job 7 used a GPU before, but has used none for 30 m 0 s: it may hang");
  CHECK(begun[0].hint == "berth stacks 7");
  REQUIRE(begun[0].owners.size() == 1);
  CHECK(begun[0].owners[0].uid == 1001);
  // After a restart, the new object has not seen the job use a device, but has restored the alert.
  AlertWatch second;
  second.restore(watch.active());
  CHECK(at(second, 0).ended.empty());
  CHECK(at(second, 5000).begun.empty());
  CHECK(second.active().size() == 1);
  share = 1;
  const auto ended = at(second, 5001).ended;
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].job == 7);
}

TEST_CASE("the alert of a job that may hang ends with the job") {
  AlertWatch watch;
  const auto at = [&](double seconds, std::optional<double> share) {
    Frame frame = frame_at(seconds, gpu());
    if (share) {
      model::DeviceProcess& process = frame.snapshot.processes.emplace_back();
      process.device = 3;
      process.user = "lin";
      process.job = 7;
      process.sm_percent = *share;
    }
    return watch.add(frame);
  };
  at(0, 50);
  at(1, 0);
  CHECK(at(1900, 0).begun.size() == 1);
  CHECK(at(1901, std::nullopt).ended.size() == 1);
}

TEST_CASE("a job that berth run says hangs is reported after a minute, although its GPU is busy") {
  AlertWatch watch;
  const auto at = [&](double seconds, bool has_process, const ReportedHangs& hangs) {
    Frame frame = frame_at(seconds, gpu());
    if (has_process) {
      model::DeviceProcess& process = frame.snapshot.processes.emplace_back();
      process.device = 3;
      process.pid = 77;
      process.user = "lin";
      process.job = 7;
      process.sm_percent = 100.0;
    }
    return watch.add(frame, 0, hangs);
  };
  const ReportedHangs hangs{{7, {"lin", 1001, "all ranks wait for each other"}},
                            {8, {"lin", 1001, "rank 1 is at train.py:7"}}};
  CHECK(at(0, true, {}).begun.empty());
  CHECK(at(1, true, hangs).begun.empty());
  CHECK(at(60, true, hangs).begun.empty());
  const auto begun = at(61, true, hangs).begun;
  REQUIRE(begun.size() == 2);
  CHECK(begun[0].rule == "job_hangs");
  CHECK(begun[0].message == "job 7 hangs: all ranks wait for each other");
  CHECK(begun[0].owners.at(0).uid == 1001);
  CHECK(begun[0].owners.at(0).pids == std::vector<std::int64_t>{77});
  CHECK(begun[1].job == 8);  // job 8 uses no device
  CHECK(at(62, true, hangs).begun.empty());
  // The ranks of one job make progress again, and the other job has ended.
  CHECK(at(63, true, {}).ended.size() == 2);
  CHECK(watch.active().empty());
  CHECK(at(64, true, {}).begun.empty());
}
