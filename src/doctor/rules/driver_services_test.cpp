#include <doctest/doctest.h>

#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/ground_for_tests.hpp"

using namespace berth::doctor;

TEST_CASE("a kernel that waits for its start is named where that start would lack the driver") {
  const auto found = [](const Facts& facts) {
    return !diagnose(facts, Knowledge{}, {"DRV18"}).findings.empty();
  };
  const auto kernels = [](Facts& facts, std::vector<std::string> names) {
    facts.nvidia.kernels_on_disk = std::move(names);
  };
  Facts facts = healthy();
  facts.nvidia.akmods = false;
  CHECK(!found(facts));
  kernels(facts, {"6.8.0-107-generic", "6.8.0-45-generic"});
  CHECK(found(facts));
  SUBCASE("built for it, too") {
    auto modules = facts.nvidia.modules_on_disk.value_or({});
    modules.push_back({"6.8.0-107-generic", "/lib/modules/6.8.0-107-generic/nvidia.ko", true});
    facts.nvidia.modules_on_disk = modules;
    CHECK(!found(facts));
  }
  SUBCASE("akmods builds it at its start") {
    facts.nvidia.akmods = true;
    CHECK(!found(facts));
  }
  SUBCASE("an older one, or one of another line") {
    kernels(facts, {"6.8.0-9-generic", "6.8.0-45-generic", "6.11.0-8-lowlatency"});
    CHECK(!found(facts));
  }
  SUBCASE("the one that runs is gone from the disk") {
    kernels(facts, {"6.8.0-107-generic"});
    facts.machine.modules = std::vector<std::string>{"nvidia", "ext4"};
    CHECK(diagnose_with(ground_rules(), facts, {}).findings.front().id == "DRV18");
  }
  SUBCASE("nobody could look") {
    facts.nvidia.kernels_on_disk = Unreadable{"/lib/modules", EACCES};
    CHECK(!found(facts));
    CHECK(diagnose(facts, Knowledge{}, {"DRV18"}).not_checked.size() == 1);
  }
}
