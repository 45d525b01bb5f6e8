#include "watch/job_growth.hpp"

#include <doctest/doctest.h>

using namespace berth;
using namespace berth::watch;

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

Frame frame_with(double seconds, std::uint64_t bytes) {
  Frame frame;
  frame.seconds = seconds;
  model::Device device;
  device.index = 2;
  device.readings.memory_total_bytes = 80 * kGiB;
  device.readings.memory_used_bytes = bytes;
  frame.snapshot.devices.push_back(device);
  model::DeviceProcess process;
  process.device = 2;
  process.job = 7;
  process.user = "lin";
  process.memory_bytes = bytes;
  frame.snapshot.processes.push_back(process);
  return frame;
}

/// Returns for each step of ten minutes whether the job's memory grew in it.
template <typename Memory>
std::vector<bool> judged(Memory&& memory) {
  JobGrowth growth;
  std::vector<bool> all;
  for (int second = 0; second < 2 * 3600; second += 10)
    for (const auto& [key, found] : growth.add(frame_with(second, memory(second))))
      if (found.grows) all.push_back(*found.grows);
  return all;
}

}  // namespace

TEST_CASE("a job whose memory grows all the time is found") {
  const auto grows =
      judged([](int second) { return (10 + static_cast<std::uint64_t>(second) / 150) * kGiB; });
  REQUIRE(grows.size() >= 9);
  CHECK(std::find(grows.begin(), grows.end(), false) == grows.end());
}

TEST_CASE("memory that goes up and down, or that grows too slowly to matter, is not growth") {
  for (const bool grows :
       judged([](int second) { return (second / 60 % 2 == 0 ? 10 : 60) * kGiB; }))
    CHECK_FALSE(grows);
  for (const bool grows :
       judged([](int second) { return 10 * kGiB + static_cast<std::uint64_t>(second) * 1024; }))
    CHECK_FALSE(grows);
}

TEST_CASE("memory that is unknown for one process of a job says nothing") {
  JobGrowth growth;
  for (int second = 0; second < 7200; second += 60) {
    Frame frame = frame_with(second, (10 + static_cast<std::uint64_t>(second) / 300) * kGiB);
    frame.snapshot.processes.push_back(frame.snapshot.processes[0]);
    frame.snapshot.processes[1].memory_bytes = model::Absence::kNoPermission;
    for (const auto& [key, found] : growth.add(frame)) CHECK_FALSE(found.grows);
  }
}
