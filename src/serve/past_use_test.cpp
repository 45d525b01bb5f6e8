#include "serve/past_use.hpp"

#include <doctest/doctest.h>

using berth::serve::PastUse;
using std::chrono::hours;

TEST_CASE("the past use of users is halved after each half-life") {
  PastUse use;
  CHECK(use.left(0, hours(24)).empty());
  CHECK(use.keep({{1000, 3600.5}, {1001, 0.9}}, 1'000));
  CHECK(use.record() == R"({"ahead":{"1000":3600.0},"at":1000})");
  PastUse next;
  next.resume(use.record());
  CHECK(next.left(1'000, hours(24)) == PastUse::ByUser{{1000, 3600}});
  CHECK(next.left(1'000 + 24 * 3'600'000, hours(24)).at(1000) == doctest::Approx(1800));
  CHECK(next.left(0, hours(24)).at(1000) == 3600);  // the clock was set back
}

TEST_CASE("the same past use is not written again, and follows a clock that is set") {
  PastUse use;
  CHECK(use.keep({{1000, 10}}, 5'000));
  CHECK(!use.keep({{1000, 10.7}}, 9'000));
  use.move_time(6'000, 9'000, 500);
  CHECK(use.record().find("\"at\":5000") != std::string::npos);
  use.move_time(4'000, 9'000, 500);
  CHECK(use.record().find("\"at\":5500") != std::string::npos);
}

TEST_CASE("a damaged record of past use does not count") {
  for (const char* wrong : {"", "[]", "7", "{", R"({"at":"x","ahead":{}})", R"({"at":1,"ahead":7})",
                            R"({"at":1,"ahead":{"x":1,"2":"y"}})"}) {
    PastUse use;
    use.resume(wrong);
    CHECK_MESSAGE(use.left(1, hours(24)).empty(), wrong);
    use.move_time(0, 9, 1);
    CHECK(use.keep({{1, 2}}, 1));
  }
}
