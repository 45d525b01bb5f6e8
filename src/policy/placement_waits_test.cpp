// Tests place() on devices that are busy or may be busy.
#include <doctest/doctest.h>

#include "policy/machines_for_tests.hpp"
#include "policy/placement.hpp"

using namespace berth::policy::machines;
using berth::model::Absence;
using berth::model::Request;
using berth::policy::place;
using berth::policy::place_leased;

TEST_CASE("a waiting job without options is told who holds what, and what would start now") {
  Snapshot busy = nvidia(2);
  use(busy, 0, 70);
  busy.devices[1].processes_unknown = Absence::kNoPermission;
  busy.devices[1].note = "the driver does not show this user which processes use the GPU";
  const auto held = place({}, busy);
  REQUIRE(!held);
  CHECK(held.error().message.find("zhao (pid 4121, python train.py) 70.0 GiB") !=
        std::string::npos);
  CHECK(held.error().message.find("GPU 1: its users are not known: the driver does not show") !=
        std::string::npos);
  CHECK(held.error().message.find("free\n") == std::string::npos);
  CHECK(held.error().hint ==
        "berth run --memory 80GiB …\nberth run --cpu …\nberth run --or-cpu-after 10m …");
}

TEST_CASE("a MIG GPU whose partitions are refused is not said to have none") {
  Snapshot refused = machine({with_mig(gpu(Vendor::kNvidia, "RTX 4060", 8), {}, "a")});
  refused.devices[0].partitions_unknown = Absence::kNoPermission;
  Request one;
  one.gpus = 1;
  const auto held = place(one, refused);
  REQUIRE(!held);
  CHECK(held.error().message.find("has no partition") == std::string::npos);
  CHECK(held.error().message.find("its partitions could not be read") != std::string::npos);
}

TEST_CASE("a lease without a GPU keeps the request's own reasons") {
  Request request;
  request.inherited_cuda = "";
  const auto placement = place_leased(request, {}, "", nvidia(2));
  REQUIRE(placement);
  CHECK(placement->devices.empty());
  REQUIRE(!placement->reasons.empty());
  CHECK(placement->reasons.front().find("CUDA_VISIBLE_DEVICES") != std::string::npos);
  CHECK(place_leased({}, {}, "", nvidia(2))->devices.empty());
}

TEST_CASE("a job that waits for a silent device gets a hint to the doctor, others do not") {
  Snapshot silent = nvidia(2);
  for (Device& device : silent.devices) device.health = Health::kNoAnswer;
  Request one;
  one.gpus = 1;
  const auto waits = place(one, silent);
  REQUIRE(!waits);
  CHECK(waits.error().id == "E0412");
  CHECK(waits.error().hint.find("berth doctor") == 0);
  CHECK(waits.error().hint.find("--cpu") != std::string::npos);
  silent.devices[1].health = Health::kOk;
  use(silent, 1, 20, true, "");
  const auto busy = place(one, silent);
  REQUIRE(!busy);
  CHECK(busy.error().hint.find("doctor") == std::string::npos);
}
