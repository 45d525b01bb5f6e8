// Tests the sampler with working and hanging driver libraries (tests/fake_nvml).
#include "watch/sampler.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <vector>

#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::watch;
using namespace std::chrono_literals;

namespace {

inventory::Sources sources_with(const std::string& name) {
  inventory::Sources sources;
  sources.nvml_library = std::string(BERTH_FAKE_NVML) + "/libfake_" + name + ".so";
  sources.roots.sys = "/nonexistent";
  return sources;
}

}  // namespace

TEST_CASE("frames come one after another, with the readings of every device") {
  SamplerOptions options;
  options.interval = 20ms;
  Sampler sampler(sources_with("healthy"), options);
  const FramePtr first = sampler.wait(0, 60s);
  REQUIRE(first);
  CHECK(std::count_if(first->snapshot.devices.begin(), first->snapshot.devices.end(),
                      [](const model::Device& device) {
                        return device.vendor == model::Vendor::kNvidia;
                      }) == 8);
  CHECK(first->snapshot.processes.size() == 24);
  const FramePtr later = sampler.wait(first->number + 5, 60s);
  REQUIRE(later);
  CHECK(later->number > first->number);
  CHECK(*later->snapshot.devices[3].readings.temperature_celsius == 43.0);
  CHECK(later->cost.looks == 1);
  CHECK(later->cost.driver_seconds > 0);
}

TEST_CASE("on request the devices come first, and the processes with the next frame") {
  SamplerOptions options;
  options.interval = 20ms;
  options.early_frame = true;
  std::vector<FramePtr> frames;
  std::mutex mutex;
  options.on_frame = [&](const FramePtr& frame) {
    const std::lock_guard hold(mutex);
    frames.push_back(frame);
  };
  const Sampler sampler(sources_with("healthy"), options);
  REQUIRE(sampler.wait(2, 60s));
  const std::lock_guard hold(mutex);
  CHECK(frames[0]->is_early);
  CHECK(frames[0]->snapshot.devices.size() == frames[1]->snapshot.devices.size());
  CHECK(frames[0]->snapshot.processes.empty());
  CHECK_FALSE(frames[1]->is_early);
  CHECK(frames[1]->has_new_processes);
  CHECK(frames[1]->snapshot.processes.size() == 24);
}

TEST_CASE("information about jobs is added in the sampler's thread") {
  SamplerOptions options;
  options.interval = 20ms;
  options.decorate = [](model::Snapshot& snapshot) {
    for (model::DeviceProcess& process : snapshot.processes) process.job = 7;
  };
  Sampler sampler(sources_with("one"), options);
  const FramePtr frame = sampler.wait(0, 60s);
  REQUIRE(frame);
  REQUIRE_FALSE(frame->snapshot.processes.empty());
  CHECK(frame->snapshot.processes[0].job == 7);
}

TEST_CASE(
    "when a process list can't be read any more, its old processes are gone and it is not known") {
  SamplerOptions options;
  options.interval = 20ms;
  Sampler sampler(sources_with("list_ends"), options);
  FramePtr frame = sampler.wait(0, 60s);
  for (int i = 0; i < 500 && frame && !frame->snapshot.devices[0].processes_unknown; ++i)
    frame = sampler.wait(frame->number + 1, 60s);
  REQUIRE(frame);
  CHECK(frame->snapshot.devices[0].processes_unknown == model::Absence::kNoPermission);
  CHECK(frame->snapshot.processes.empty());
}

TEST_CASE("after a reload of the driver a lost device is read again") {
  const system::TemporaryTree folder;
  inventory::Sources sources = sources_with("lost_device");
  const std::string loaded = folder.path + "/libnvidia-ml.so.1";
  std::filesystem::create_symlink(sources.nvml_library, loaded);
  sources.nvml_library = loaded;
  SamplerOptions options;
  options.interval = 20ms;
  const Sampler sampler(sources, options);
  FramePtr frame = sampler.wait(0, 60s);
  REQUIRE(frame);
  const auto lost = [&] {
    const auto& devices = frame->snapshot.devices;
    return std::count_if(devices.begin(), devices.end(), [](const model::Device& one) {
      return one.health == model::Health::kLost;
    });
  };
  CHECK(lost() == 1);
  std::filesystem::remove(loaded);
  std::filesystem::create_symlink(sources_with("healthy").nvml_library, loaded);
  for (int i = 0; i < 3000 && frame && lost() == 1; ++i)
    frame = sampler.wait(frame->number + 1, 60s);
  REQUIRE(frame);
  CHECK(lost() == 0);
  for (const model::Device& one : frame->snapshot.devices)
    if (one.vendor == model::Vendor::kNvidia) CHECK(one.readings.temperature_celsius);
}

TEST_CASE("an Xid that the kernel logs later counts, even if its time is before the start") {
  const system::TemporaryTree folder;
  std::ofstream log(folder.path + "/kmsg");
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto write = [&](int code) {
    log << "3,1," << (now.tv_sec - 600) * 1'000'000 << ",-;NVRM: Xid (PCI:0000:03:00): " << code
        << "\n"
        << std::flush;
  };
  write(31);
  inventory::Sources sources;
  sources.nvml_library = "";
  sources.roots.sys = "/nonexistent";
  sources.roots.dev = folder.path;
  SamplerOptions options;
  options.interval = 20ms;
  options.xids = true;
  Sampler sampler(sources, options);
  FramePtr frame = sampler.wait(0, 60s);
  REQUIRE(frame);
  REQUIRE(frame->xid_totals);
  CHECK(frame->xid_totals->devices.at("0000:03:00").at(31).count() == 0);
  write(79);
  for (int i = 0; i < 500 && frame && !frame->xid_totals->devices.at("0000:03:00").contains(79);
       ++i)
    frame = sampler.wait(frame->number + 1, 60s);
  REQUIRE(frame);
  CHECK(frame->xid_totals->devices.at("0000:03:00").at(79).count() == 1);
}

TEST_CASE("an Xid that an earlier program has read is in no frame, and is not counted") {
  const system::TemporaryTree folder;
  folder.put("proc/sys/kernel/random/boot_id", "5f0a\n");
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  std::string log;
  for (const auto& [number, code] : {std::pair{4, 31}, {5, 79}})
    // The kernel's clock is 60 s ahead of CLOCK_MONOTONIC here.
    log += "3," + std::to_string(number) + "," + std::to_string((now.tv_sec + 60) * 1'000'000) +
           ",-;NVRM: Xid (PCI:0000:03:00): " + std::to_string(code) + "\n";
  folder.put("dev/kmsg", log);
  inventory::Sources sources;
  sources.nvml_library = "";
  sources.roots = folder.roots();
  SamplerOptions options;
  options.interval = 20ms;
  options.xids = true;
  options.log_seen = {"5f0a", 4};
  Sampler sampler(sources, options);
  const FramePtr frame = sampler.wait(0, 60s);
  REQUIRE(frame);
  if (frame->number == 1) {  // only the first frame contains the Xid
    REQUIRE(frame->xids.size() == 1);
    CHECK(frame->xids[0].code == 79);
  }
  REQUIRE(frame->xid_totals);
  CHECK(frame->xid_totals->log == LogPosition{"5f0a", 5});
  const auto& codes = frame->xid_totals->devices.at("0000:03:00");
  CHECK(codes.at(31).count() == 0);
  CHECK(codes.at(31).last_unix_milliseconds > 0);
  CHECK(codes.at(79).count() == 1);
}

TEST_CASE("without a driver there are frames with the CPU only") {
  inventory::Sources sources;
  sources.nvml_library = "";
  sources.roots.sys = "/nonexistent";
  SamplerOptions options;
  options.interval = 20ms;
  Sampler sampler(sources, options);
  const FramePtr frame = sampler.wait(2, 60s);
  REQUIRE(frame);
  REQUIRE_FALSE(frame->snapshot.devices.empty());
  CHECK(frame->snapshot.devices.back().kind == model::DeviceKind::kCpu);
}
