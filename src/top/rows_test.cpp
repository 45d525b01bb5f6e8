#include "top/rows.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace berth;
using namespace berth::top;

namespace {

model::DeviceProcess process(int device, std::int64_t pid, const char* user, std::uint64_t bytes) {
  model::DeviceProcess one;
  one.device = device;
  one.pid = one.host_pid = pid;
  one.start_ticks = 1;
  one.user = user;
  one.memory_bytes = bytes;
  one.rss_bytes = std::uint64_t{100};
  return one;
}

watch::Frame frame_of(std::vector<model::DeviceProcess> processes) {
  watch::Frame frame;
  frame.snapshot.processes = std::move(processes);
  return frame;
}

std::string shape(const std::vector<Row>& rows) {
  std::string all;
  for (const Row& row : rows)
    all += std::string(static_cast<std::size_t>(row.depth), '.') +
           std::to_string(row.process->pid.value_or(0)) + "@" +
           std::to_string(row.process->device) + " ";
  return all;
}

}  // namespace

TEST_CASE("the tree has children below their parent, and all rows once") {
  const auto frame =
      frame_of({process(0, 10, "lin", 1), process(0, 11, "lin", 9), process(1, 11, "lin", 2),
                process(0, 12, "lin", 5), process(0, 13, "zhao", 8)});
  Settings settings;
  CHECK(shape(rows_of(frame, settings)) == "11@0 13@0 12@0 11@1 10@0 ");
  settings.is_tree = true;
  settings.parents = {{11, 10}, {12, 11}};
  CHECK(shape(rows_of(frame, settings)) == "13@0 10@0 .11@0 .11@1 ..12@0 ");
  settings.filter = "zhao";
  CHECK(shape(rows_of(frame, settings)) == "13@0 ");
}

TEST_CASE("a child whose parent is filtered out stands by itself") {
  Settings settings;
  settings.is_tree = true;
  settings.parents = {{11, 10}};
  settings.devices = {1};
  CHECK(shape(rows_of(frame_of({process(0, 10, "lin", 1), process(1, 11, "lin", 1)}), settings)) ==
        "11@1 ");
}

TEST_CASE("ancestors are found through processes that use no device, and remembered") {
  std::string proc = "/tmp/berth-rows-XXXXXX";
  REQUIRE(::mkdtemp(proc.data()) != nullptr);
  const auto put = [&](const std::string& pid, const char* stat) {
    std::filesystem::create_directories(proc + "/" + pid);
    std::ofstream(proc + "/" + pid + "/stat") << stat;
  };
  put("12", "12 (a) b) S 11 1 1");
  put("11", "11 (sh) S 10 1 1");
  put("10", "10 (python) S 1 1 1");
  ParentCache cache(proc);
  Settings settings;
  const auto frame = frame_of({process(0, 10, "lin", 1), process(0, 12, "lin", 1)});
  cache.read(frame, settings);
  CHECK(settings.parents.empty());  // nobody asked for a tree
  settings.is_tree = true;
  cache.read(frame, settings);
  CHECK(settings.parents == std::map<std::int64_t, std::int64_t>{{12, 10}});
  put("12", "12 (a) S 1 1 1");
  cache.read(frame, settings);
  CHECK(settings.parents.size() == 1);
  cache.read(frame_of({process(0, 12, "lin", 1)}), settings);
  CHECK(settings.parents.empty());
  std::filesystem::remove_all(proc);
}

TEST_CASE("users have the sum of their processes, and unknown values are marked") {
  auto frame = frame_of({process(0, 10, "lin", 10), process(1, 10, "lin", 20),
                         process(1, 11, "lin", 0), process(0, 12, "zhao", 25)});
  frame.snapshot.processes[2].memory_bytes = model::Absence::kNotSupported;
  frame.snapshot.processes[3].sm_percent = 40.0;
  const auto users = users_of(frame, {});
  REQUIRE(users.size() == 2);
  CHECK(users[0].user == "lin");
  CHECK(users[0].processes == 2);
  CHECK(users[0].devices == std::set<int>{0, 1});
  CHECK(users[0].memory_bytes.value == 30);
  CHECK_FALSE(users[0].memory_bytes.is_whole);
  CHECK(users[0].rss_bytes.value == 200);  // one process has one memory on the host
  CHECK_FALSE(users[0].sm_percent.is_known);
  Settings by_sm;
  by_sm.sort = "sm";
  CHECK(users_of(frame, by_sm)[0].user == "zhao");
}
