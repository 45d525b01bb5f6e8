#include "serve/idle_bench.hpp"

#include <doctest/doctest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "system/temporary_tree.hpp"

using namespace berth;
using serve::IdleBench;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using system::ChildResult;
using system::ChildRun;

namespace {

model::Snapshot machine(int cards) {
  model::Snapshot out;
  for (int i = 0; i < cards; ++i) {
    model::Device device;
    device.index = i;
    device.kind = model::DeviceKind::kGpu;
    device.managed = true;
    device.name = "X100";
    device.uuid = "GPU-" + std::to_string(i);
    out.devices.push_back(device);
  }
  return out;
}

/// A `berth bench --keep` that ends when the test says so, or when it has to give way.
struct FakeBench {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> devices;  // the measured devices, in order
  bool may_end = false;
  int stopped = 0;

  system::ChildResult run(const system::ChildRun& run, const std::atomic<bool>& is_stopped) {
    std::unique_lock lock(mutex);
    devices.push_back(run.words.back());
    changed.notify_all();
    while (!may_end && !is_stopped) changed.wait_for(lock, std::chrono::milliseconds(1));
    if (!is_stopped) return {};
    ++stopped;
    return {.is_over = false};
  }
  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return devices.size() >= count; });
  }
  void let_end(bool yes) {
    const std::lock_guard lock(mutex);
    may_end = yes;
  }
};

struct Test {
  FakeBench bench;
  std::vector<std::string> notes;
  system::TemporaryTree folder;
  IdleBench idle{hours(24), folder.path, [this](const std::string& one) { notes.push_back(one); },
                 [this](const system::ChildRun& run, const std::atomic<bool>& is_stopped) {
                   return bench.run(run, is_stopped);
                 }};
  IdleBench::Instant now{hours(1)};
  std::int64_t unix_milliseconds = 1'700'000'000'000;

  void see(const model::Snapshot& snapshot, const std::set<std::string>& leased = {},
           bool is_waited = false) {
    now += minutes(2);
    unix_milliseconds += 120'000;
    idle.see(snapshot, leased, is_waited, now, unix_milliseconds);
  }
  /// Calls see() until this number of measurements have begun.
  void see_until(std::size_t count, const model::Snapshot& snapshot) {
    for (;;) {
      see(snapshot);
      const std::lock_guard lock(bench.mutex);
      if (bench.devices.size() >= count) return;
    }
  }
};

}  // namespace

TEST_CASE("only devices that nobody uses are idle") {
  model::Snapshot snapshot = machine(3);
  CHECK(serve::idle_devices(snapshot, {"GPU-1"}).size() == 2);
  model::DeviceProcess process;
  process.device = 2;
  process.kind.compute = true;
  snapshot.processes.push_back(process);
  const auto idle = serve::idle_devices(snapshot, {"GPU-1"});
  REQUIRE(idle.size() == 1);
  CHECK(idle[0]->index == 0);
  snapshot.devices[1].kind = model::DeviceKind::kCpu;
  CHECK(serve::idle_devices(snapshot, {"GPU-0"}).empty());
}

TEST_CASE("idle devices are measured one after another, and again after the time in the settings") {
  Test test;
  test.see(machine(2), {"GPU-0"});
  test.bench.wait_for(1);
  test.bench.let_end(true);
  test.see_until(2, machine(2));
  CHECK(test.bench.devices == std::vector<std::string>{"GPU-1", "GPU-0"});
  for (int i = 0; i < 20; ++i) test.see(machine(2));
  CHECK(test.bench.devices.size() == 2);
  test.now += hours(25);
  test.see_until(3, machine(2));
}

TEST_CASE("a result of an earlier daemon counts, and a slower device is reported") {
  Test test;
  std::filesystem::create_directories(test.folder.path + "/bench");
  const auto write = [&](const std::string& name, double seconds, std::int64_t at) {
    std::ofstream(test.folder.path + "/bench/" + name)
        << R"({"schema":1,"results":[{"name":"X100","uuid":"GPU-0","case":"gemm.fp32",)"
        << R"("median_seconds":)" << seconds << R"(,"unix_seconds":)" << at << "}]}";
  };
  write("baseline.json", 0.9, 1'600'000'000);
  write("latest.json", 1, 1'700'000'000);
  for (int i = 0; i < 5; ++i) test.see(machine(1));
  CHECK(test.bench.devices.empty());
  test.unix_milliseconds += 1000LL * 86'400;
  test.see(machine(1));
  test.bench.wait_for(1);
  test.bench.let_end(true);
  while (test.notes.empty()) test.see(machine(1));
  CHECK(test.notes[0] == "X100: gemm.fp32 is 10 % slower than in the baseline");
}

TEST_CASE("a measurement gives way to a job, and is repeated later") {
  Test test;
  CHECK_FALSE(test.idle.give_way(test.now));
  test.see(machine(1));
  test.bench.wait_for(1);
  CHECK(test.idle.give_way(test.now));
  CHECK(test.bench.stopped == 1);
  CHECK_FALSE(test.idle.wants_look(test.now + seconds(30)));
  test.see(machine(1), {"GPU-0"});  // the job has the device
  CHECK(test.bench.devices.size() == 1);
  test.see(machine(1));
  test.bench.wait_for(2);
  test.see(machine(1), {}, true);  // a job waits
  CHECK(test.bench.stopped == 2);
  IdleBench never({}, test.folder.path, {});
  CHECK_FALSE(never.wants_look(test.now));
}
