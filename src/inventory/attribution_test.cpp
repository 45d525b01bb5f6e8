#include "inventory/attribution.hpp"

#include <doctest/doctest.h>

using namespace berth;
using namespace berth::inventory;
using namespace berth::model;

namespace {

constexpr std::uint64_t kMiB = 1U << 20U, kGiB = 1U << 30U;

Device gpu(std::uint64_t used, Reading<std::uint64_t> reserved = 500 * kMiB) {
  Device made;
  made.index = 0;
  made.vendor = Vendor::kNvidia;
  made.minor_number = 0;
  made.readings.memory_total_bytes = 80 * kGiB;
  made.readings.memory_used_bytes = used;
  made.readings.memory_reserved_bytes = reserved;
  return made;
}

DeviceProcess process(std::int64_t pid, Reading<std::uint64_t> memory, int on = 0) {
  DeviceProcess made;
  made.device = on;
  made.pid = made.host_pid = pid;
  made.memory_bytes = memory;
  return made;
}

system::NodeHolder holder(std::int64_t pid, std::string state, std::string command,
                          std::vector<std::string> nodes = {"/dev/nvidia0"}) {
  return {{pid, "lin", std::move(command), std::move(state)}, std::move(nodes)};
}

}  // namespace

TEST_CASE("memory is unaccounted for only beyond what inaccuracy explains") {
  CHECK(unaccounted_bytes(gpu(10 * kMiB), {}) == 0);
  CHECK(unaccounted_bytes(gpu(64 * kMiB), {}) == 0);
  CHECK(unaccounted_bytes(gpu(65 * kMiB), {}) == 65 * kMiB);
  CHECK(unaccounted_bytes(gpu(40 * kGiB), {process(1, 39 * kGiB + 300 * kMiB)}) == 0);
  CHECK(unaccounted_bytes(gpu(40 * kGiB), {process(1, 39 * kGiB)}) == kGiB);
  CHECK(unaccounted_bytes(gpu(40 * kGiB), {process(1, 30 * kGiB), process(2, 20 * kGiB)}) == 0);
  CHECK(unaccounted_bytes(gpu(40 * kGiB), {process(1, 40 * kGiB, 1)}) == 40 * kGiB);
  CHECK(unaccounted_bytes(gpu(kGiB), {process(1, ~0ULL), process(2, ~0ULL)}) == 0);
}

TEST_CASE("reserved memory is not subtracted twice") {
  CHECK(unaccounted_bytes(gpu(400 * kMiB, 500 * kMiB), {}) == 400 * kMiB);
}

TEST_CASE("if used memory is the host's or unknown, nothing is attributed") {
  Device unified = gpu(40 * kGiB);
  unified.memory_unified = true;
  CHECK(unaccounted_bytes(unified, {}) == 0);
  Device silent = gpu(0);
  silent.readings.memory_used_bytes = Absence::kNoAnswer;
  CHECK(unaccounted_bytes(silent, {}) == 0);
}

TEST_CASE("the likely cause follows from the most reliable sign") {
  struct Case {
    const char* cause;
    std::uint64_t bytes;
    Reading<std::uint64_t> reserved;
    std::vector<DeviceProcess> processes;
    std::vector<system::NodeHolder> holders;
    ListQuality quality;
  };
  DeviceProcess hidden = process(7, Absence::kNotSupported);
  hidden.pid.reset();
  DeviceProcess mps = process(8, 100 * kMiB);
  mps.kind.mps = true;
  const Reading<std::uint64_t> told = 500 * kMiB, untold = Absence::kNotSupported;
  const auto worker = holder(9, "S", "python -c spawn_main"), stuck = holder(9, "D", "python"),
             dead = holder(9, "Z", "[python]"),
             server = holder(9, "S", "/usr/bin/nvidia-cuda-mps-server -v"),
             keeper = holder(9, "S", "/usr/bin/nvidia-persistenced --user x"),
             elsewhere = holder(9, "D", "python", {"/dev/nvidia1", "/dev/nvidiactl"});
  const Case cases[] = {
      {"not_reported", kGiB, told, {process(7, Absence::kNotSupported)}, {stuck}, {}},
      {"not_reported", kGiB, told, {hidden}, {}, {}},
      {"other_namespace", kGiB, told, {hidden}, {}, {true, false}},
      {"zombie", kGiB, told, {}, {worker, dead, stuck}, {}},
      {"uninterruptible", kGiB, told, {}, {worker, stuck}, {}},
      {"mps_server", kGiB, told, {mps}, {}, {}},
      {"mps_server", kGiB, told, {}, {server}, {}},
      {"driver_reserve", 300 * kMiB, untold, {}, {}, {}},
      {"driver_reserve", 300 * kMiB, untold, {}, {worker}, {true, false}},
      {"other_namespace", 300 * kMiB, told, {}, {}, {true, false}},
      {"other_namespace", 9 * kGiB, untold, {}, {}, {true, false}},
      {"not_readable", 9 * kGiB, untold, {}, {}, {false, true}},
      {"not_listed", kGiB, told, {}, {worker}, {}},
      {"unknown", kGiB, told, {}, {keeper}, {}},
      {"unknown", kGiB, told, {}, {elsewhere}, {}},
      {"unknown", kGiB, told, {process(7, Absence::kNotSupported, 1)}, {}, {}},
      {"unknown", kGiB, told, {process(9, kGiB)}, {stuck}, {}},
  };
  for (const Case& one : cases) {
    CAPTURE(&one - cases);
    CHECK(explain(gpu(2 * kGiB, one.reserved), one.bytes, one.processes, one.holders, one.quality)
              .cause == one.cause);
  }
}

TEST_CASE("only holders of this device that the driver does not list on it are named") {
  const auto row = explain(gpu(2 * kGiB), kGiB, {process(9, kGiB), process(10, kGiB, 1)},
                           {holder(9, "S", "listed"), holder(10, "S", "listed elsewhere"),
                            holder(11, "S", "other device", {"/dev/nvidia1"})},
                           {});
  REQUIRE(row.holders.size() == 1);
  CHECK(row.holders[0].pid == 10);
  CHECK(row.memory_bytes == kGiB);
}

TEST_CASE("in a container, a driver's pid is not matched with a local process") {
  DeviceProcess coincidence = process(9, kGiB);
  coincidence.pid.reset();
  const auto row =
      explain(gpu(2 * kGiB), kGiB, {coincidence}, {holder(9, "S", "vim")}, {true, false});
  REQUIRE(row.holders.size() == 1);
  CHECK(row.cause == "other_namespace");
}

TEST_CASE("a device is known by its node") {
  Device one = gpu(0);
  one.minor_number = 12;
  CHECK(nodes_of(one) == std::vector<std::string>{"/dev/nvidia12"});
  one.vendor = Vendor::kAmd;
  one.minor_number = 128;
  CHECK(nodes_of(one) == std::vector<std::string>{"/dev/dri/renderD128"});
  one.minor_number.reset();
  CHECK(nodes_of(one).empty());
}
