#include "watch/budget.hpp"

#include <doctest/doctest.h>
#include <initializer_list>

using berth::watch::Budget;

namespace {

/// Simulates sampling for `minutes`, with these costs per sample. Returns the value of stretch() at
/// the end.
int after(Budget& budget, double& wall, double& cpu, double& driver, int minutes, double cpu_each,
          double driver_each) {
  for (const double end = wall + minutes * 60; wall < end; wall += budget.stretch()) {
    cpu += cpu_each;
    driver += driver_each;
    budget.add(wall, cpu, driver, 8);
  }
  return budget.stretch();
}

}  // namespace

TEST_CASE("sampling that costs little goes on every second") {
  Budget budget(1);
  double wall = 0, cpu = 1, driver = 20;  // the costs of the start, which must be ignored
  CHECK(after(budget, wall, cpu, driver, 10, 0.004, 0.02) == 1);
}

TEST_CASE("sampling that costs more than its budget becomes less frequent, and frequent again") {
  for (const bool by_driver : {true, false}) {
    Budget budget(1);
    double wall = 0, cpu = 0, driver = 0;
    CHECK(after(budget, wall, cpu, driver, 10, by_driver ? 0.001 : 0.05, by_driver ? 1.0 : 0.01) ==
          4);  // per second: 5 % of a core, or 125 ms for each of 8 devices
    CHECK(after(budget, wall, cpu, driver, 10, 0.001, 0.01) == 1);
  }
}

TEST_CASE("it never pauses for so long that use would not be counted") {
  Budget budget(1), slow(10);
  double wall = 0, cpu = 0, driver = 0;
  CHECK(after(budget, wall, cpu, driver, 30, 5, 1) == 8);
  wall = cpu = driver = 0;
  CHECK(after(slow, wall, cpu, driver, 30, 5, 1) == 1);
}

TEST_CASE("it does not go to and fro at the limit") {
  Budget budget(1);
  double wall = 0, cpu = 0, driver = 0;
  CHECK(after(budget, wall, cpu, driver, 5, 0.025, 0.01) == 2);
  for (int i = 0; i < 10; ++i) CHECK(after(budget, wall, cpu, driver, 1, 0.025, 0.01) == 2);
}
