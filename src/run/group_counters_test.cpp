#include "run/group_counters.hpp"

#include <doctest/doctest.h>

using namespace berth::run;

TEST_CASE("a quota that stops eight cores in each second period stops for half of them") {
  // The 600 periods of 0.1 s last 60 s. throttled_usec sums up all cores, so it grows by 180 s.
  const auto before = parse_quota_periods(
      "usage_usec 5\nnr_periods 100\nnr_throttled 90\nthrottled_usec 7000000\n");
  const auto after = parse_quota_periods(
      "usage_usec 9\nnr_periods 700\nnr_throttled 390\nthrottled_usec 187000000\n");
  CHECK(stopped_part({{"/a", before}}, {{"/a", after}}) == doctest::Approx(0.5));
}

TEST_CASE("the group with the largest share counts, not the one with the largest count") {
  const std::map<std::string, QuotaPeriods> before{{"/", {100'000, 90'000}}, {"/a", {0, 0}}};
  const std::map<std::string, QuotaPeriods> after{{"/", {100'100, 90'010}}, {"/a", {50, 40}}};
  CHECK(stopped_part(before, after) == doctest::Approx(0.8));
}

TEST_CASE("without a quota, and for counters that make no sense, nothing was stopped") {
  CHECK(stopped_part({}, {}) == 0);
  CHECK(stopped_part({{"/a", parse_quota_periods("usage_usec 5\n")}},
                     {{"/a", parse_quota_periods("usage_usec 9\n")}}) == 0);
  CHECK(stopped_part({{"/a", {10, 5}}}, {{"/a", {3, 3}}}) == 0);
  CHECK(stopped_part({}, {{"/new", {10, 10}}}) == 0);
  CHECK(stopped_part({{"/a", {10, 5}}}, {{"/a", {12, 9}}}) == 1);
}
