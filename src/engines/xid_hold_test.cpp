#include "engines/xid_hold.hpp"

#include <doctest/doctest.h>

namespace berth::engines {
namespace {

std::vector<KubeUnit> cards() {
  std::vector<KubeUnit> units(2);
  units[0].pci = "0000:01:00.0";
  units[1].pci = "0000:02:00.0";
  return units;
}

std::string health_after(XidHold& hold, bool first_is_well = true) {
  auto units = cards();
  units[0].healthy = first_is_well;
  hold.apply(units);
  return std::string(units[0].healthy ? "1" : "0") + (units[1].healthy ? "1" : "0");
}

TEST_CASE("a fatal Xid makes its GPU unhealthy for some looks, and no other GPU") {
  XidHold hold(3);
  CHECK(hold.add({{"0000:01:00.0", 79, 0}}));
  auto units = cards();
  hold.apply(units);
  CHECK(units[0].why == "Xid 79");
  CHECK(units[1].healthy);
  CHECK(health_after(hold) == "01");
  CHECK(health_after(hold) == "01");
  CHECK(health_after(hold) == "11");
}

TEST_CASE("an Xid of the application changes nothing") {
  XidHold hold(3);
  CHECK_FALSE(
      hold.add({{"0000:01:00.0", 31, 0}, {"0000:01:00.0", 13, 0}, {"0000:01:00.0", 99999, 0}}));
  CHECK(health_after(hold) == "11");
}

TEST_CASE("another Xid, or a look that finds a fault, starts the count again") {
  XidHold hold(2);
  CHECK(hold.add({{"0000:01:00", 79, 0}}));
  CHECK(health_after(hold) == "01");
  CHECK(hold.add({{"0000:01:00.0", 79, 0}}));
  CHECK(health_after(hold) == "01");
  CHECK(health_after(hold, false) == "01");
  CHECK(health_after(hold) == "01");
  CHECK(health_after(hold) == "01");
  CHECK(health_after(hold) == "11");
}

}  // namespace
}  // namespace berth::engines
