#include "watch/cpu_load.hpp"

#include <doctest/doctest.h>

using namespace berth::watch;
using berth::model::Absence;

TEST_CASE("the load is the busy share of the time between two reads") {
  CpuLoad load;
  CHECK(load.read_text("cpu  100 0 100 800 0 0 0 0 0 0\n").why == Absence::kNeedsTwoReadings);
  const auto second = load.read_text("cpu  150 0 150 900 0 0 0 0 0 0\ncpu0 1 2 3 4\n");
  REQUIRE(second);
  CHECK(*second == doctest::Approx(50));
}

TEST_CASE("waiting for a disk is idle, and time of guests counts once") {
  const auto ticks = parse_cpu_ticks("cpu 10 0 0 5 5 0 0 0 10 0\n");
  REQUIRE(ticks);
  CHECK(ticks->all == 20);
  CHECK(ticks->busy == 10);
}

TEST_CASE("counters that decrease or are invalid give no load") {
  CpuLoad load;
  CHECK(load.read_text("cpu 10 0 0 10\n").why == Absence::kNeedsTwoReadings);
  CHECK(load.read_text("cpu 5 0 0 5\n").why == Absence::kNeedsTwoReadings);
  CHECK(load.read_text("cpu 5 0 x 5\n").why == Absence::kFailed);
  CHECK(load.read_text("").why == Absence::kFailed);
  CHECK_FALSE(parse_cpu_ticks("cpu 1 2\n"));
}
