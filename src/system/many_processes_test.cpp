// Reading a machine with very many processes must be fast. ./dev soak sets the full number of
// processes.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <chrono>

#include "system/process.hpp"
#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::system;
using namespace std::chrono_literals;

TEST_CASE("a hundred thousand processes are searched for holders in bounded time") {
  using Clock = std::chrono::steady_clock;
  const int count = ::getenv("BERTH_SOAK") != nullptr ? 100'000 : 3'000;
  const TemporaryTree tree;
  for (int pid = 1; pid <= count; ++pid) {
    const std::string folder = "proc/" + std::to_string(pid);
    if (pid % 10 == 0)
      tree.link(folder + "/fd/3", pid % 1000 == 0 ? "/dev/nvidia0" : "/dev/null");
    else
      tree.folder(folder);
  }
  REQUIRE(list_pids(tree.path + "/proc").size() == static_cast<std::size_t>(count));

  const HolderSearch all = find_holders(tree.roots(), {"/dev/nvidia"}, 60s);
  CHECK(all.finished);
  CHECK(static_cast<int>(all.holders.size()) == count / 1000);

  const auto start = Clock::now();
  static_cast<void>(find_holders(tree.roots(), {"/dev/nvidia"}, 10ms));
  CHECK(Clock::now() - start < 1s);
}
