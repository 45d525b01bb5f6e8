#include "engines/unguarded.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "engines/machines_for_tests.hpp"
#include "guard/container.hpp"

namespace berth::engines {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

TEST_CASE("memory that no program with the guard can have is used without it") {
  model::Snapshot seen = machine_of(2);
  auto units = kube_units(seen);
  const std::string uuid = units[0].uuid;
  const auto marked = [&](std::uint64_t used, const std::vector<guard::CountedUse>& counted) {
    for (model::Device& device : seen.devices) device.readings.memory_used_bytes = used;
    mark_unguarded(units = kube_units(seen), seen, counted);
    CHECK_FALSE(units[1].unguarded);  // no pod has a share of this unit
    return units[0].unguarded;
  };
  CHECK_FALSE(marked(20 * kGiB, {}));
  CHECK(marked(2 * kGiB, {{uuid, 0, 0}}));
  CHECK_FALSE(marked(kGiB, {{uuid, 0, 0}}));
  // Two processes use 3 GiB, their contexts up to 1 GiB each, and 1 GiB more is tolerated.
  CHECK_FALSE(marked(6 * kGiB, {{uuid, 2 * kGiB, 1}, {uuid, kGiB, 1}}));
  CHECK(marked(7 * kGiB, {{uuid, 2 * kGiB, 1}, {uuid, kGiB, 1}}));
}

TEST_CASE("what a pod counted that has ended is not expected any more") {
  std::string made = "/tmp/berth-unguarded-XXXXXX";
  REQUIRE(::mkdtemp(made.data()) != nullptr);
  const std::string uuid = kube_units(machine_of(1))[0].uuid;
  const std::string slot = slot_name(uuid + "::3"), folder = made + "/slots/" + slot;
  CHECK(slot == uuid + "--3");
  REQUIRE(guard::files_for_container(folder, made + "/lib", {{uuid, kGiB}}));
  // Without a stored list of running pods, all counters count.
  CHECK(counted_in_pods(made).size() == 1);
  note_running(made, {});
  CHECK(counted_in_pods(made).size() == 1);  // the share was just allocated, so it still counts
  const timespec old[2]{{1'700'000'000, 0}, {1'700'000'000, 0}};
  REQUIRE(::utimensat(AT_FDCWD, (folder + "/usage").c_str(), old, 0) == 0);
  CHECK(counted_in_pods(made).empty());
  note_running(made, {uuid + "--2", slot});
  CHECK(counted_in_pods(made).size() == 1);
  std::filesystem::remove_all(made);
}

TEST_CASE("where the driver does not tell the memory in use, nothing is said") {
  model::Snapshot seen = machine_of(2);
  auto units = kube_units(seen);
  for (model::Device& device : seen.devices)
    device.readings.memory_used_bytes = model::Absence::kNoAnswer;
  mark_unguarded(units, seen, {{units[0].uuid, 0, 0}});
  CHECK_FALSE(units[0].unguarded);
}

}  // namespace
}  // namespace berth::engines
