#include "policy/demand.hpp"

#include <doctest/doctest.h>

#include "policy/candidates.hpp"
#include "policy/machines_for_tests.hpp"

using berth::model::Ledger;
using berth::model::Request;
using berth::policy::Demand;
using berth::policy::demand_of;
using berth::policy::pool_of;
using berth::policy::units_of;
using namespace berth::policy::machines;

namespace {

Request gpus(int count) {
  Request request;
  request.gpus = count;
  return request;
}

Demand demand(const Request& request, const Snapshot& machine) {
  const auto made = demand_of(request, machine, units_of(machine));
  REQUIRE(made);
  return *made;
}

}  // namespace

TEST_CASE("a unit keeps its place if other devices appear or disappear") {
  const Snapshot two = nvidia(2);
  const auto units = units_of(two);
  CHECK(units.size() == 2);
  Snapshot three = nvidia(3);
  CHECK(units_of(three, units).size() == 3);
  three.devices.erase(three.devices.begin());
  const auto still = units_of(three, units);
  CHECK(still.size() == 3);
  const auto pool = pool_of(three, {}, still);
  CHECK_FALSE(pool.devices[0].usable);
  CHECK(pool.devices[1].usable);
}

TEST_CASE("the pool counts foreign processes, not jobs") {
  Snapshot s = nvidia(2);
  use(s, 0, 10);
  s.processes.back().pid = 5;
  use(s, 1, 20);
  s.processes.back().pid = 6;
  Ledger ledger;
  ledger.kept = true;
  ledger.holdings = {{1, "", s.devices[0].uuid, 30 * kGiB}};
  ledger.processes = {{5, 1}};
  const auto pool = pool_of(s, ledger, units_of(s));
  CHECK(pool.devices[0].memory_taken_bytes == 0);
  CHECK_FALSE(pool.devices[0].in_use);
  CHECK(pool.devices[1].memory_taken_bytes == 20 * kGiB);
  CHECK(pool.devices[1].in_use);
  CHECK(pool.devices[1].memory_bytes == 80 * kGiB);
  CHECK_FALSE(pool_of(s, ledger, units_of(s), {s.devices[1].uuid}).devices[1].usable);
  // The other broker will return its unit later, so the request may wait.
  const auto lent = pool_of(s, ledger, units_of(s), {}, {s.devices[0].uuid});
  CHECK_FALSE(fit(lent, {.devices = 2}));
  CHECK(could_ever_fit(lent, {.devices = 2}));
  CHECK_FALSE(could_ever_fit(pool_of(s, ledger, units_of(s), {s.devices[0].uuid}), {.devices = 2}));
}

TEST_CASE("a demand has the number of devices and the allowed units") {
  Snapshot s = nvidia(4);
  CHECK(demand(gpus(2), s).devices == 2);
  CHECK(demand(gpus(2), s).allowed.empty());
  CHECK(demand(Request{}, s).devices == 1);
  CHECK_FALSE(demand(Request{}, s).beside_strangers);
  CHECK_FALSE(demand(gpus(1), s).beside_strangers);
  Request visible = gpus(1);
  visible.inherited_cuda = "1,3";
  CHECK(demand(visible, s).allowed == std::vector{1, 3});
  Request named;
  named.devices = {"2"};
  CHECK(demand(named, s).allowed == std::vector{2});
  CHECK(demand(gpus(0), s).devices == 0);
  // All devices are in use now, but the request is possible later.
  for (int i = 0; i < 4; ++i) use(s, i, 70);
  CHECK(demand(gpus(4), s).devices == 4);
  CHECK(demand_of(gpus(5), s, units_of(s)).error().id == "E0411");
}

TEST_CASE("several devices are of the vendor with the most devices") {
  std::vector<Device> devices{gpu(Vendor::kAmd, "MI210", 64), gpu(Vendor::kNvidia, "A100", 80),
                              gpu(Vendor::kNvidia, "A100", 80)};
  const Snapshot s = machine(std::move(devices));
  CHECK(demand(gpus(2), s).allowed == std::vector{1, 2});
  CHECK(demand(gpus(1), s).allowed.empty());
}

TEST_CASE("without a GPU a job that asks for nothing runs on the CPU, beside others") {
  const Demand made = demand(Request{}, bare());
  CHECK(made.devices == 0);
  CHECK_FALSE(made.beside_strangers);
}

TEST_CASE("a job that must have a MIG partition waits only for partitions") {
  const Device a100 = gpu(Vendor::kNvidia, "NVIDIA A100", 40);
  const Snapshot some = machine({with_mig(a100, {5, 20}, "a"), a100});
  Request request = gpus(1);
  CHECK(demand(request, some).allowed.empty());
  request.mig_only = true;
  CHECK(demand(request, some).allowed == std::vector<int>{0, 1});
  CHECK(demand(request, nvidia(2)).allowed.empty());
}
