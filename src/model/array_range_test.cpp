#include "model/array_range.hpp"

#include <doctest/doctest.h>

using berth::model::parse_array_range;

TEST_CASE("a range of an array is numbers, spans, steps, and how many at a time") {
  CHECK(parse_array_range("3")->indices == std::vector{3});
  CHECK(parse_array_range("1-4")->indices == std::vector{1, 2, 3, 4});
  CHECK(parse_array_range(" 0-100:50,7,7 ")->indices == std::vector{0, 7, 50, 100});
  CHECK(parse_array_range("1-4")->at_most == 0);
  const auto limited = parse_array_range("1-100%4");
  REQUIRE(limited);
  CHECK(limited->indices.size() == 100);
  CHECK(limited->at_most == 4);
  CHECK(parse_array_range("0-9999")->indices.size() == 10'000);
}

TEST_CASE("invalid and huge array ranges are refused") {
  for (const char* bad :
       {"", ",", "1-", "-1", "4-1", "1-3:0", "a", "1 2", "1-4%", "1-4%0", "1%2%3", "0-10000",
        "0-5000,0-5000", "0-999999999", "99999999999999", "1-4:", "2000000", "1-4x"}) {
    CAPTURE(bad);
    const auto range = parse_array_range(bad);
    REQUIRE_FALSE(range);
    CHECK(range.error().id == "E0105");
  }
}
