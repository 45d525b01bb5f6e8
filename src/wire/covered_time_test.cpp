#include "wire/covered_time.hpp"

#include <doctest/doctest.h>
#include <random>
#include <vector>

using berth::wire::CoveredTime;

TEST_CASE("time in which several commands ran counts once") {
  CoveredTime time;
  CHECK(time.add(10, 20) == 10);
  CHECK(time.add(10, 20) == 0);
  CHECK(time.add(30, 40) == 10);
  CHECK(time.add(15, 35) == 10);
  CHECK(time.add(40, 45) == 5);
  CHECK(time.add(0, 50) == 15);
  CHECK(time.add(60, 50) == 0);
  CHECK(time.add(50, 50) == 0);
}

TEST_CASE("the sum is the covered time, for commands that end in almost any order") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    CoveredTime time;
    std::vector<bool> truth(4000);
    std::uint64_t sum = 0, covered = 0;
    for (std::uint64_t at = 0; at < 3900; at += random() % 30) {
      const std::uint64_t end = at + random() % 60, begin = end - random() % (end + 1) % 60;
      sum += time.add(begin, end);
      for (std::uint64_t i = begin; i < end; ++i) truth[i] = true;
    }
    for (const bool one : truth) covered += one ? 1 : 0;
    CHECK(sum == covered);
  }
}

TEST_CASE("gaps that are too old to be remembered count as covered") {
  CoveredTime time;
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < 100; ++i) sum += time.add(10 * i, 10 * i + 5);
  CHECK(sum == 500);
  CHECK(time.add(5, 10) == 0);
  CHECK(time.add(985, 990) == 5);
}
