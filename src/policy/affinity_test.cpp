#include <doctest/doctest.h>

#include <array>

#include "policy/machines_for_tests.hpp"
#include "policy/placement.hpp"

using berth::model::Request;
using berth::policy::place;
using namespace berth::policy::machines;

TEST_CASE("a job runs on the processors near its device") {
  const Snapshot s = nvidia(4, 2);
  Request request;
  request.devices = {"3"};
  const auto placement = place(request, s);
  REQUIRE(placement);
  CHECK(placement->cpus == "8-15");
  CHECK(placement->threads == 8);
}

TEST_CASE("devices of two nodes leave the affinity as it is") {
  const Snapshot s = nvidia(4, 2);
  Request request;
  request.gpus = 4;
  const auto placement = place(request, s);
  REQUIRE(placement);
  CHECK(placement->cpus.empty());
  CHECK(placement->threads == 16);
}

TEST_CASE("nearby processors outside the affinity are reported and not used") {
  Snapshot s = nvidia(2, 2);
  s.host.cpu.affinity = "0-3";
  s.host.cpu.cores_affinity = s.host.cpu.cores_usable = 4;
  Request request;
  request.devices = {"1"};
  const auto placement = place(request, s);
  REQUIRE(placement);
  CHECK(placement->cpus.empty());
  CHECK(placement->threads == 4);
  bool said = false;
  for (const std::string& reason : placement->reasons)
    said = said || reason.find("8-15") != std::string::npos;
  CHECK(said);
}

TEST_CASE("a CPU quota counts, not the number of visible processors") {
  Snapshot s = nvidia(2, 2);
  s.host.cpu.quota_cores = 2.5;
  s.host.cpu.cores_usable = 2;
  const auto placement = place({}, s);
  REQUIRE(placement);
  CHECK(placement->cpus == "0-7");
  CHECK(placement->threads == 2);
}

TEST_CASE("requested cores are near the device, and differ from the neighbour's") {
  const Snapshot s = nvidia(4, 2);
  Request request;
  request.cpus = 4;
  const std::array<const char*, 4> expected{"0-3", "4-7", "8-11", "12-15"};
  for (std::size_t device = 0; device < expected.size(); ++device) {
    request.devices = {std::to_string(device)};
    const auto placement = place(request, s);
    REQUIRE(placement);
    CHECK(placement->cpus == expected[device]);
    CHECK(placement->threads == 4);
  }
}

TEST_CASE("if too few cores are near, others are added") {
  const Snapshot s = nvidia(2, 2);
  Request request;
  request.cpus = 10;
  request.devices = {"1"};
  const auto placement = place(request, s);
  REQUIRE(placement);
  CHECK(placement->cpus == "0-1,8-15");
  CHECK(placement->threads == 10);
}

TEST_CASE("a request for more cores than usable is refused with the usable number") {
  Request request;
  request.cpus = 9;
  const auto refused = place(request, bare());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().id == "E0417");
  CHECK(refused.error().hint == "berth run --cpus 8 …");
}

TEST_CASE("on the CPU threads are limited and nothing is pinned") {
  Request request;
  request.cpus = 3;
  const auto placement = place(request, bare());
  REQUIRE(placement);
  CHECK(placement->cpus.empty());
  CHECK(placement->threads == 3);
}

TEST_CASE("unreadable or absent affinity changes nothing") {
  Snapshot s = nvidia(1);
  s.host.cpu.affinity = "nonsense";
  s.host.cpu.cores_usable = 0;
  const auto placement = place({}, s);
  REQUIRE(placement);
  CHECK(placement->cpus.empty());
  CHECK(placement->threads == 1);
}
