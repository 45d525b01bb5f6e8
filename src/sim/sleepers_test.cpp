#include "sim/sleepers.hpp"

#include <doctest/doctest.h>

#include <string>

#include "base/file.hpp"

namespace sim = berth::sim;

TEST_CASE("after waiting, every simulated process shows its own command") {
  sim::Sleepers sleepers;
  std::vector<pid_t> pids;
  for (int i = 0; i < 40; ++i) {
    const auto pid = sleepers.start("/bin/sleep", "pretended 60");
    REQUIRE(pid);
    pids.push_back(*pid);
  }
  sleepers.await_commands();
  for (const pid_t pid : pids) {
    const auto line = berth::slurp("/proc/" + std::to_string(pid) + "/cmdline", 4096);
    REQUIRE(line);
    CHECK(line->substr(0, 10) == std::string("pretended\0", 10));
  }
}
