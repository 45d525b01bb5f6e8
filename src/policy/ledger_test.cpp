// Tests place() when jobs have leases.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "model/cpu_list.hpp"
#include "policy/candidates.hpp"
#include "policy/machines_for_tests.hpp"
#include "policy/placement.hpp"

using berth::model::Holding;
using berth::model::Ledger;
using berth::model::Placement;
using berth::model::Request;
using berth::policy::place;
using namespace berth::policy::machines;

namespace {

std::string unit(const Snapshot& machine, int device) {
  return berth::policy::unit_id(machine.devices[static_cast<std::size_t>(device)], nullptr);
}

Ledger with(std::vector<Holding> holdings, std::vector<int> cpus = {}) {
  Ledger ledger;
  ledger.kept = true;
  ledger.holdings = std::move(holdings);
  ledger.cpus = std::move(cpus);
  return ledger;
}

Snapshot two_gpus() {
  return machine({gpu(Vendor::kNvidia, "A", 24), gpu(Vendor::kNvidia, "A", 24)});
}

Request gpus(int count) {
  Request request;
  request.gpus = count;
  return request;
}

Request memory(std::uint64_t gib) {
  Request request;
  request.memory_bytes = gib * kGiB;
  return request;
}

/// Adds a lease to the ledger, in the same way as the broker.
void note(Ledger& ledger, std::uint64_t job, const Snapshot& machine, const Request& request,
          const Placement& placement) {
  for (const int device : placement.devices)
    ledger.holdings.push_back({job, "", unit(machine, device), request.memory_bytes.value_or(0),
                               request.share_permille.value_or(0)});
  if (request.cpus)
    for (const int cpu : berth::model::parse_cpu_list(placement.cpus).value_or(std::vector<int>()))
      ledger.cpus.push_back(cpu);
  std::sort(ledger.cpus.begin(), ledger.cpus.end());
}

}  // namespace

TEST_CASE("an exclusive device is given to no other job, even if it is named") {
  const Snapshot s = two_gpus();
  const Ledger one = with({{7, "zhao", unit(s, 0), 0}});
  CHECK(place(gpus(1), s, one)->devices == std::vector{1});
  CHECK(place(Request{}, s, one)->devices == std::vector{1});
  CHECK(place(memory(1), s, one)->devices == std::vector{1});
  const auto both = place(gpus(2), s, one);
  REQUIRE_FALSE(both);
  CHECK(both.error().id == "E0412");
  CHECK(both.error().message.find("job 7 (zhao)") != std::string::npos);
  Request named;
  named.devices = {"0"};
  CHECK(place(named, s, one).error().id == "E0412");
}

TEST_CASE("a job without options waits if jobs have all GPUs") {
  const Snapshot s = two_gpus();
  const Ledger all = with({{1, "", unit(s, 0), 0}, {2, "", unit(s, 1), kGiB}});
  const auto refused = place(Request{}, s, all);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().id == "E0412");
  // A job without options is not placed on a device that foreign processes use.
  Snapshot strange = s;
  use(strange, 1, 20, true);
  CHECK_FALSE(place(Request{}, strange, with({{1, "", unit(s, 0), 0}})));
}

TEST_CASE("reserved memory is not free, used or not, and counts once") {
  Snapshot s = two_gpus();
  Ledger ledger = with({{1, "", unit(s, 0), 16 * kGiB}, {2, "", unit(s, 1), 0}});
  CHECK(place(memory(8), s, ledger)->devices == std::vector{0});
  CHECK_FALSE(place(memory(9), s, ledger));
  use(s, 0, 10, true);
  s.processes.back().pid = 41;
  s.devices[0].readings.memory_used_bytes = 10 * kGiB;
  ledger.processes = {{41, 1}};
  CHECK(place(memory(8), s, ledger)->devices == std::vector{0});
  CHECK_FALSE(place(memory(9), s, ledger));
  // Job 1 uses more memory than it was promised.
  s.devices[0].readings.memory_used_bytes = s.processes.back().memory_bytes = 20 * kGiB;
  CHECK(place(memory(4), s, ledger)->devices == std::vector{0});
  CHECK_FALSE(place(memory(5), s, ledger));
}

TEST_CASE("shares of a device's time never exceed the whole") {
  const Snapshot s = two_gpus();
  const auto asks = [](int share) {
    Request request = memory(2);
    request.share_permille = share;
    return request;
  };
  const Ledger ledger = with({{1, "zhao", unit(s, 0), 2 * kGiB, 700}, {2, "", unit(s, 1), kGiB}});
  CHECK(place(asks(300), s, ledger)->devices ==
        std::vector{1});  // device 1 has more free memory than device 0
  CHECK(place(asks(301), s, ledger)->devices == std::vector{1});
  CHECK(place(memory(2), s, ledger)->devices == std::vector{1});
  Request named = asks(400);
  named.devices = {"0"};
  const auto refused = place(named, s, ledger);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().id == "E0412");
  CHECK(refused.error().message.find("40 % of its time") != std::string::npos);
  CHECK(refused.error().message.find("job 1 (zhao) 2.00 GiB 70 %") != std::string::npos);
  Request both = asks(301);
  both.gpus = 2;
  CHECK(place(both, s, ledger).error().id == "E0412");
  for (const int none : {0, -5, 1001}) CHECK(place(asks(none), s, ledger).error().id == "E0102");
  Request alone = gpus(1);
  alone.share_permille = 500;
  CHECK(place(alone, s, with({})).error().id == "E0013");
}

TEST_CASE("a job's process on a device outside its lease is a foreign process") {
  Snapshot s = two_gpus();
  use(s, 1, 4, true);
  s.processes.back().pid = 41;
  Ledger ledger = with({{1, "", unit(s, 0), 0}});
  ledger.processes = {{41, 1}};
  CHECK_FALSE(place(gpus(1), s, ledger));
  ledger.holdings.clear();
  CHECK(place(gpus(1), s, ledger)->devices == std::vector{0});
}

TEST_CASE("cores of a job are given to no other job") {
  Snapshot s = two_gpus();
  Request on_cpu = gpus(0);
  on_cpu.cpus = 3;
  const auto first = place(on_cpu, s, with({}));
  REQUIRE(first);
  CHECK(first->cpus == "0-2");
  const auto second = place(on_cpu, s, with({}, {0, 1, 2}));
  REQUIRE(second);
  CHECK(second->cpus == "3-5");
  CHECK(place(on_cpu, s, with({}, {0, 1, 2, 3, 4, 5})).error().id == "E0412");
  // A job without --cpus may use all cores that no other job has reserved, and reserves none
  // itself.
  const auto rest = place(gpus(0), s, with({}, {0, 1, 2}));
  CHECK(rest->cpus == "3-7");
  CHECK(rest->threads == 5);
  CHECK(place(gpus(1), s, with({}, {0, 1}))->cpus == "2-7");
  // Without a broker, two jobs could get the same cores, so the job is not pinned to any core.
  CHECK(place(on_cpu, s)->cpus.empty());
}

TEST_CASE("random leases never give one device twice, nor more memory or cores than there are") {
  std::mt19937 random(20);
  for (int round = 0; round < 300; ++round) {
    std::vector<Device> devices;
    const int count = 1 + static_cast<int>(random() % 5);
    for (int i = 0; i < count; ++i)
      devices.push_back(gpu(Vendor::kNvidia, "A", 8 + random() % 3 * 8));
    const Snapshot s = machine(devices, 2);
    Ledger ledger = with({});
    for (std::uint64_t job = 1; job <= 40; ++job) {
      Request request = random() % 3 == 0   ? gpus(static_cast<int>(random() % 3))
                        : random() % 3 == 0 ? Request{}
                                            : memory(1 + random() % 8);
      if (request.memory_bytes && random() % 2 == 0)
        request.share_permille = 1 + static_cast<int>(random() % 1000);
      if (random() % 4 == 0) request.cpus = 1 + static_cast<int>(random() % 4);
      const auto placement = place(request, s, ledger);
      if (placement) note(ledger, job, s, request, *placement);
      if (random() % 3 != 0 || ledger.holdings.empty()) continue;
      const std::uint64_t gone = ledger.holdings[random() % ledger.holdings.size()].job;
      std::erase_if(ledger.holdings, [&](const Holding& one) { return one.job == gone; });
    }
    std::map<std::string, std::uint64_t> promised;
    std::map<std::string, int> alone, shared, time;
    for (const Holding& one : ledger.holdings) {
      promised[one.unit] += one.memory_bytes;
      time[one.unit] += one.share_permille;
      ++(one.memory_bytes == 0 ? alone : shared)[one.unit];
    }
    for (int i = 0; i < count; ++i) {
      const std::string id = unit(s, i);
      CHECK(alone[id] <= 1);
      CHECK(time[id] <= 1000);
      CHECK((alone[id] == 0 || shared[id] == 0));
      CHECK(promised[id] <= *s.devices[static_cast<std::size_t>(i)].readings.memory_total_bytes);
    }
    CHECK(std::set<int>(ledger.cpus.begin(), ledger.cpus.end()).size() == ledger.cpus.size());
    CHECK(ledger.cpus.size() <= 16);
  }
}
