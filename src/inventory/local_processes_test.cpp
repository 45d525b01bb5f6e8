#include "inventory/local_processes.hpp"

#include <doctest/doctest.h>
#include <test_paths.hpp>

using namespace berth;
using namespace berth::inventory;
using namespace berth::model;

namespace {

Roots recorded(const std::string& machine) {
  const std::string root = std::string(BERTH_TEST_MACHINES) + "/" + machine;
  return {root + "/proc", root + "/sys", root + "/dev", root + "/etc", root + "/proc"};
}

DeviceProcess row(int device, std::optional<std::int64_t> host_pid,
                  std::optional<std::int64_t> pid = {}) {
  DeviceProcess made;
  made.device = device;
  made.host_pid = host_pid;
  made.pid = pid;
  made.memory_bytes = 1000U + static_cast<unsigned>(device);
  return made;
}

std::vector<DeviceProcess> filled(const std::string& machine, std::vector<DeviceProcess> rows,
                                  system::Depth depth = system::Depth::kAll) {
  const Roots roots = recorded(machine);
  fill_local(rows, roots, system::PidTranslator(roots), depth);
  return rows;
}

}  // namespace

TEST_CASE("a process on two devices is read once and shown on both") {
  const auto rows = filled("processes-host", {row(0, 4121), row(1, 6000), row(1, 4121)});
  CHECK(rows[0].command == "python train.py --lr 1e-3");
  CHECK(rows[2].command == rows[0].command);
  CHECK(rows[2].pid == 4121);
  CHECK(rows[2].device == 1);
  CHECK(*rows[0].memory_bytes == 1000);
  CHECK(*rows[2].memory_bytes == 1001);
  CHECK(rows[1].state == "D");
}

TEST_CASE("an ended process keeps only the driver's pid") {
  const auto rows = filled("processes-host", {row(0, 777)});
  CHECK(!rows[0].pid);
  CHECK(rows[0].host_pid == 777);
  CHECK(rows[0].user.empty());
}

TEST_CASE("in a container, a local process is not taken for the host's process with the same pid") {
  const auto rows = filled("processes-container", {row(0, 4121)});
  CHECK(!rows[0].pid);
  CHECK(rows[0].host_pid == 4121);
  CHECK(rows[0].command.empty());
  CHECK(!rows[0].uid);
}

TEST_CASE("in a container, a process in our /proc has no known host pid") {
  const auto rows = filled("processes-container", {row(0, std::nullopt, 4121)});
  CHECK(rows[0].pid == 4121);
  CHECK(!rows[0].host_pid);
  CHECK(rows[0].command == "vim notes.txt");
}

TEST_CASE("with the host's proc mounted, processes are described and numbered as far as known") {
  const auto rows = filled("processes-host-proc", {row(0, 4121), row(0, 4188)});
  CHECK(rows[0].pid == 33);
  CHECK(rows[0].command == "python train.py");
  CHECK(!rows[1].pid);
  CHECK(rows[1].command == "python other.py");
}

TEST_CASE("on the host a pid from proc is the driver's number too") {
  const auto rows = filled("processes-host", {row(0, std::nullopt, 4121)}, system::Depth::kUser);
  CHECK(rows[0].host_pid == 4121);
  CHECK(rows[0].user == "lin");
  CHECK(rows[0].command.empty());
}

TEST_CASE("with the host's proc mounted, a pid found there is the host's number") {
  const auto rows = filled("processes-host-proc", {row(0, std::nullopt, 4121)});
  CHECK(rows[0].host_pid == 4121);
  CHECK(rows[0].pid == 33);
  CHECK(rows[0].command == "python train.py");
}

TEST_CASE("an empty process list is fine") {
  CHECK(filled("processes-host", {}).empty());
}
