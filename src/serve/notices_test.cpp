#include "serve/notices.hpp"

#include <doctest/doctest.h>

using namespace berth;
using berth::serve::Notices;

TEST_CASE("a notice is shown for a day, once, and by the next broker") {
  constexpr std::int64_t kDay = 24LL * 3600 * 1000;
  Notices notices;
  notices.add(0, "E0945", "the journal was damaged", "berth jobs --all");
  notices.add(1000, "E0945", "the journal was damaged", "berth jobs --all");
  notices.add(2000, "E0944", "a name in no encoding: \xff", "");
  Notices next;
  next.resume(notices.record());
  REQUIRE(next.of_last_day(2000).size() == 2);
  CHECK(next.of_last_day(2000).front().id == "E0945");
  CHECK(next.of_last_day(1000 + kDay).size() == 2);
  CHECK(next.of_last_day(1001 + kDay).size() == 1);
}

TEST_CASE("a damaged record of notices costs no notice that follows") {
  for (const char* damaged : {"", "{", "7", R"([{"at":"x"},{"id":7},null])"}) {
    Notices notices;
    notices.resume(damaged);
    CHECK(notices.of_last_day(0).empty());
    notices.add(0, "E0945", "the journal was damaged", "");
    CHECK(notices.of_last_day(0).size() == 1);
  }
}

TEST_CASE("the last ten notices are kept") {
  Notices notices;
  for (int i = 0; i < 30; ++i) notices.add(0, "E0945", std::to_string(i), "");
  REQUIRE(notices.of_last_day(0).size() == 10);
  CHECK(notices.of_last_day(0).front().message == "20");
}
