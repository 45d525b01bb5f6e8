#include "serve/frame_change.hpp"

#include <doctest/doctest.h>

#include "base/json.hpp"
#include "output/json.hpp"

using namespace berth;
using Json = nlohmann::json;

namespace {

model::Snapshot machine() {
  model::Snapshot snapshot;
  snapshot.unix_milliseconds = 1'000'000;
  for (int i = 0; i < 2; ++i) {
    model::Device& device = snapshot.devices.emplace_back();
    device.index = i;
    device.name = "a \"GPU\", [with] {brackets}\\";
    device.readings.utilization_percent = 10;
    model::DeviceProcess& process = snapshot.processes.emplace_back();
    process.device = i;
    process.pid = 100 + i;
    process.age_seconds = 5;
    process.command = "python \"},{\" \\";
  }
  return snapshot;
}

std::string document(const model::Snapshot& snapshot, std::uint64_t number) {
  return output::frame_json(snapshot, {number, 0, 0});
}

/// Applies a change to a frame, as a client does.
Json applied(Json frame, const Json& change) {
  for (const auto& [key, value] : change.items()) {
    if (!key.ends_with("_changed")) {
      frame[key] = value;
      continue;
    }
    Json& rows = frame[key.substr(0, key.size() - 8)];
    const Json before = rows;
    for (const Json& row : value) {
      const auto at = row["row"].get<std::size_t>();
      rows[at] = before[row.value("from", at)];
      for (const auto& [member, inside] : row.items())
        if (member != "row" && member != "from") rows[at][member] = inside;
    }
  }
  return frame;
}

Json check(const model::Snapshot& before, const model::Snapshot& after) {
  const std::string old = document(before, 1), now = document(after, 2);
  const Json change = Json::parse(serve::frame_change(old, now));
  CHECK(applied(Json::parse(old), change) == Json::parse(now));
  return change;
}

}  // namespace

TEST_CASE("a change has only what differs") {
  const model::Snapshot before = machine();
  model::Snapshot after = before;
  CHECK(check(before, after) == Json{{"frame", 2}});
  after.devices[1].readings.utilization_percent = 90;
  after.processes[0].memory_bytes = 4096;
  const Json change = check(before, after);
  CHECK(change["devices_changed"].size() == 1);
  CHECK(change["devices_changed"][0]["row"] == 1);
  CHECK(change["devices_changed"][0]["utilization_percent"] == 90);
  CHECK_FALSE(change["devices_changed"][0].contains("name"));
  CHECK(change["processes_changed"][0]["memory_bytes"] == 4096);
  CHECK_FALSE(change.contains("host"));
}

TEST_CASE("other rows, a new order and emptied lists arrive") {
  const model::Snapshot before = machine();
  model::Snapshot after = before;
  std::swap(after.processes[0], after.processes[1]);
  CHECK(check(before, after).contains("processes_changed"));
  after.processes.pop_back();
  CHECK(check(before, after)["processes"].size() == 1);
  after.processes.clear();
  CHECK(check(before, after)["processes"].empty());
  CHECK(check(after, before)["processes"].size() == 2);
  after.devices[0].name = "another";
  after.notes = {"a note"};
  CHECK(check(before, after)["notes"].size() == 1);
}

TEST_CASE("a process that moved in the order is not sent again") {
  model::Snapshot before = machine();
  for (int i = 0; i < 2; ++i) before.processes[static_cast<std::size_t>(i)].host_pid = 100 + i;
  model::Snapshot after = before;
  std::swap(after.processes[0], after.processes[1]);
  after.processes[0].memory_bytes = 4096;
  const Json change = check(before, after);
  CHECK(change["processes_changed"].size() == 2);
  CHECK(change["processes_changed"][1] == Json{{"row", 1}, {"from", 0}});
  CHECK(change["processes_changed"][0]["memory_bytes"] == 4096);
  CHECK_FALSE(change["processes_changed"][0].contains("command"));
  // One process ended and another one began.
  after.processes[1].host_pid = after.processes[1].pid = 300;
  CHECK(check(before, after)["processes_changed"][1]["pid"] == 300);
}

TEST_CASE("the age of a process is left out while it only grows") {
  const model::Snapshot before = machine();
  model::Snapshot after = before;
  after.processes[0].age_seconds = 6;
  const Json change = Json::parse(serve::frame_change(document(before, 1), document(after, 2)));
  CHECK_FALSE(change.contains("processes_changed"));
  after.processes[0].pid = 200;
  CHECK(check(before, after)["processes_changed"][0]["age_seconds"] == 6);
}
