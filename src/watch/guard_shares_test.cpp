#include "watch/guard_shares.hpp"

#include <doctest/doctest.h>

using namespace berth;
using watch::GuardShares;
using namespace std::chrono_literals;

TEST_CASE("the guard's share of a process is of the time between two lists, and of that process") {
  GuardShares shares;
  std::vector<model::DeviceProcess> processes(2);
  processes[0].pid = 41;
  processes[0].start_ticks = 7;
  processes[0].guard_device_seconds = 10;
  processes[1].pid = 42;  // process 1 runs without the guard
  const GuardShares::Clock::time_point start(1000s);
  shares.fill(processes, start);
  CHECK_FALSE(processes[0].guard_percent);
  processes[0].guard_device_seconds = 10.5;
  shares.fill(processes, start + 2s);
  CHECK(processes[0].guard_percent == 25.0);
  CHECK_FALSE(processes[1].guard_percent);
  // The pid now belongs to another process, whose counter begins at 0.
  processes[0].start_ticks = 900;
  processes[0].guard_device_seconds = 11;
  shares.fill(processes, start + 4s);
  CHECK_FALSE(processes[0].guard_percent);
  processes[0].guard_device_seconds.reset();
  shares.fill(processes, start + 6s);
  CHECK_FALSE(processes[0].guard_percent);
}
