#include "run/descendants.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

using namespace berth::run;

TEST_CASE("a child is a descendant, and a signal reaches it") {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  const auto found = descendants(::getpid());
  const auto mine = std::find_if(found.begin(), found.end(),
                                 [&](const Relative& one) { return one.pid == child; });
  REQUIRE(mine != found.end());
  CHECK(mine->stat.parent == ::getpid());

  SUBCASE("a process of the same number that started at another time is not hit") {
    Relative other = *mine;
    ++other.stat.start_ticks;
    signal_all({other}, SIGKILL);
    int status = 0;
    CHECK(::waitpid(child, &status, WNOHANG) == 0);
  }
  CHECK(signal_all({*mine}, SIGKILL) == 0);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WTERMSIG(status) == SIGKILL);
}
