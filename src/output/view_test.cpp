#include "output/view.hpp"

#include <doctest/doctest.h>

#include "output/samples_for_tests.hpp"

using namespace berth;
using namespace berth::output;

namespace {

model::Snapshot sample(const std::string& wanted) {
  for (auto& [name, snapshot] : sample_machines())
    if (name == wanted) return snapshot;
  return {};
}

View by_user(const std::string& user) {
  View view;
  view.user = user;
  return view;
}

std::vector<int> indices(const model::Snapshot& snapshot) {
  std::vector<int> out;
  for (const auto& device : snapshot.devices) out.push_back(device.index);
  return out;
}

}  // namespace

TEST_CASE("without filters nothing is left out") {
  const auto all = devices_in(View{}, sample("eight-busy"));
  REQUIRE(all);
  CHECK(all->devices.size() == 9);
  CHECK(processes_in(View{}, sample("nothing")));
}

TEST_CASE("devices are chosen by name, and processes with them") {
  View view;
  view.devices = {"0,3", "GPU-10000005"};
  const auto some = devices_in(view, sample("eight-busy"));
  REQUIRE(some);
  CHECK(indices(*some) == std::vector<int>{0, 3, 5});
  CHECK(some->processes.size() == 3);
  view.devices = {"77"};
  const auto none = devices_in(view, sample("eight-busy"));
  REQUIRE_FALSE(none);
  CHECK(none.error().id == "E0413");
}

TEST_CASE("a partition is chosen with its processes") {
  View view;
  view.devices = {"MIG-00000001"};
  const auto part = devices_in(view, sample("mig"));
  REQUIRE(part);
  REQUIRE(part->devices.size() == 1);
  CHECK(part->devices[0].partitions.size() == 1);
  CHECK(part->processes.empty());
}

TEST_CASE("a user is a name or a uid, and one without processes is not found") {
  const auto zhao = devices_in(by_user("zhao"), sample("eight-busy"));
  REQUIRE(zhao);
  CHECK(indices(*zhao) == std::vector<int>{0, 3});
  const auto processes = processes_in(by_user("1001"), sample("eight-busy"));
  REQUIRE(processes);
  CHECK(processes->processes.size() == 2);
  const auto nobody = processes_in(by_user("li"), sample("eight-busy"));
  REQUIRE_FALSE(nobody);
  CHECK(nobody.error().id == "E0006");
  CHECK(nobody.error().code == ErrorCode::kNotFound);
  CHECK(nobody.error().hint.find("lin, zhao") != std::string::npos);
  View mine;
  mine.mine = true;
  mine.own_uid = 4711;
  CHECK_FALSE(devices_in(mine, sample("eight-busy")));
  mine.own_uid = 1000;
  CHECK(processes_in(mine, sample("eight-busy"))->processes.size() == 3);
}

TEST_CASE("a process whose user is not known belongs to nobody") {
  View mine;
  mine.mine = true;
  mine.own_uid = 0;
  CHECK_FALSE(processes_in(mine, sample("strangers")));
}

TEST_CASE("numbers sort largest first and absent ones come last") {
  View view;
  view.sort = "memory";
  const auto sorted = devices_in(view, sample("sick"));
  REQUIRE(sorted);
  CHECK(sorted->devices.front().index == 6);  // the CPU uses the most memory, so it comes first
  CHECK(sorted->devices[1].index == 0);
  CHECK_FALSE(sorted->devices.back().readings.memory_used_bytes);
  view.sort = "health";
  CHECK(devices_in(view, sample("sick"))->devices.front().index == 1);
  view.sort = "age";
  CHECK_FALSE(processes_in(view, sample("strangers"))->processes.back().age_seconds);
  view.sort = "user";
  CHECK(processes_in(view, sample("eight-busy"))->processes.front().user == "lin");
}
