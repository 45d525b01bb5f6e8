#include "bench/results.hpp"

#include <doctest/doctest.h>

using namespace berth::bench;

namespace {

std::string document(const std::string& rows) {
  return R"({"schema":1,"at":"x","results":[)" + rows + "]}";
}
std::string row(const std::string& uuid, double seconds) {
  return R"({"name":"X100","uuid":")" + uuid + R"(","case":"gemm.fp32","median_seconds":)" +
         std::to_string(seconds) + R"(,"unix_seconds":1000,"bytes_per_second":null})";
}

}  // namespace

TEST_CASE("results of one device keep those of the others") {
  const auto merged = parse_results(
      with_results_of(document(row("a", 2)), document(row("a", 1) + "," + row("b", 1))), "f");
  REQUIRE(merged);
  CHECK(merged->size() == 2);
  CHECK(merged->at("a\ngemm.fp32").seconds == 2);
  CHECK(merged->at("b\ngemm.fp32").unix_milliseconds == 1'000'000);
  for (const char* damaged : {"", "{", "[]", R"({"schema":2})", R"({"schema":1,"results":3})"}) {
    CHECK(with_results_of(document(row("a", 2)), damaged) == document(row("a", 2)));
    CHECK(parse_results(damaged, "f").error().id == "E1057");
  }
}

TEST_CASE("a case is compared with the baseline first, and else with twins") {
  const auto read = [](const std::string& rows) { return *parse_results(document(rows), "f"); };
  const auto latest = read(row("a", 1) + "," + row("b", 1) + "," + row("c", 1.25));
  CHECK_FALSE(speed_of("d", latest, {}).is_compared);
  CHECK(speed_of("a", latest, {}).slower.empty());
  const Speed slow = speed_of("c", latest, {});
  REQUIRE(slow.slower.size() == 1);
  CHECK(slow.slower[0] == "gemm.fp32 is 20 % slower than on other devices of this model");
  CHECK(speed_of("b", latest, read(row("b", 0.9))).slower ==
        std::vector<std::string>{"gemm.fp32 is 10 % slower than in the baseline"});
}

TEST_CASE("one fast twin makes no other device slow") {
  const auto latest =
      parse_results(document(row("a", 1) + "," + row("b", 1) + "," + row("c", 0.93)), "f");
  REQUIRE(latest);
  const Speed speed = speed_of("a", *latest, {});
  CHECK(speed.is_compared);
  // the median of the other two devices is 1.04, so "a" is not compared with the larger 1.08
  CHECK(speed.slower.empty());
}
