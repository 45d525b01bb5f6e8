#include "top/rows.hpp"

#include <doctest/doctest.h>

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
  auto frame =
      frame_of({process(0, 10, "lin", 1), process(0, 11, "lin", 9), process(1, 11, "lin", 2),
                process(0, 12, "lin", 5), process(0, 13, "zhao", 8)});
  frame.snapshot.processes[1].parent = frame.snapshot.processes[2].parent = 10;
  frame.snapshot.processes[3].parent = 11;
  Settings settings;
  CHECK(shape(rows_of(frame, settings)) == "11@0 13@0 12@0 11@1 10@0 ");
  settings.is_tree = true;
  CHECK(shape(rows_of(frame, settings)) == "13@0 10@0 .11@0 .11@1 ..12@0 ");
  settings.filter = "zhao";
  CHECK(shape(rows_of(frame, settings)) == "13@0 ");
}

TEST_CASE("a child whose parent is filtered out stands by itself") {
  Settings settings;
  settings.is_tree = true;
  settings.devices = {1};
  auto frame = frame_of({process(0, 10, "lin", 1), process(1, 11, "lin", 1)});
  frame.snapshot.processes[1].parent = 10;
  CHECK(shape(rows_of(frame, settings)) == "11@1 ");
}

TEST_CASE("processes whose parents form a circle are listed, and a long line of them too") {
  auto frame =
      frame_of({process(0, 10, "lin", 3), process(0, 11, "lin", 2), process(0, 12, "lin", 1)});
  frame.snapshot.processes[0].parent = 11;
  frame.snapshot.processes[1].parent = 10;
  frame.snapshot.processes[2].parent = 12;
  Settings settings;
  settings.is_tree = true;
  CHECK(shape(rows_of(frame, settings)) == "10@0 .11@0 12@0 ");
  std::vector<model::DeviceProcess> line;
  for (std::int64_t pid = 1; pid <= 200'000; ++pid) {
    line.push_back(process(0, pid, "lin", 1));
    line.back().parent = pid + 1;
  }
  const watch::Frame deep = frame_of(std::move(line));
  const auto rows = rows_of(deep, settings);
  CHECK(rows.size() == 200'000);
  CHECK(rows.back().depth == 199'999);
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
  // The host memory of a process on two devices is counted once.
  CHECK(users[0].rss_bytes.value == 200);
  CHECK_FALSE(users[0].sm_percent.is_known);
  Settings by_sm;
  by_sm.sort = "sm";
  CHECK(users_of(frame, by_sm)[0].user == "zhao");
}
