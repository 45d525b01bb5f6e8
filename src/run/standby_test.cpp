#include "run/standby.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "run/descendants.hpp"

using namespace berth::run;

TEST_CASE("a standby forks children that are not our children, each with its own channel") {
  const auto standby = Standby::start(
      [](int channel) {
        char word = 0;
        while (::recv(channel, &word, 1, 0) == 1) {
          ++word;
          ::send(channel, &word, 1, MSG_NOSIGNAL);
        }
      },
      SOCK_STREAM);
  REQUIRE(standby);
  for (char word = 'a'; word < 'z'; word += 2) {
    const auto child = standby->fork();
    REQUIRE(child);
    CHECK(::send(child->get(), &word, 1, MSG_NOSIGNAL) == 1);
    char answer = 0;
    CHECK(::recv(child->get(), &answer, 1, 0) == 1);
    CHECK(answer == word + 1);
  }
  const auto found = descendants(::getpid());
  REQUIRE(!found.empty());
  CHECK(found.front().stat.parent == ::getpid());
  SUBCASE("one that was killed forks nothing, and says so") {
    CHECK(signal_all({found.front()}, SIGKILL) == 0);
    CHECK(::waitpid(found.front().pid, nullptr, 0) == found.front().pid);
    const auto none = standby->fork();
    REQUIRE_FALSE(none);
    CHECK(none.error().id == "E0512");
  }
}
