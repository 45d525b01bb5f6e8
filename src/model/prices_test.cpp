#include "model/prices.hpp"

#include <doctest/doctest.h>

using berth::model::cost_of;
using berth::model::parse_usage_prices;

TEST_CASE("the cost of a job is the price of its hours and of its energy") {
  CHECK_FALSE(cost_of(7200, 3.6e6, {}));
  CHECK(cost_of(7200, 3.6e6, {.gpu_hour = 2.5, .kwh = {}}) == doctest::Approx(5));
  CHECK(cost_of(7200, 3.6e6, {.gpu_hour = 2.5, .kwh = 0.5}) == doctest::Approx(5.5));
  CHECK(cost_of(7200, std::nullopt, {.gpu_hour = 2.5, .kwh = {}}) == doctest::Approx(5));
}

TEST_CASE("the cost is not known if energy is priced and not known") {
  CHECK_FALSE(cost_of(7200, std::nullopt, {.gpu_hour = 2.5, .kwh = 0.5}));
  CHECK_FALSE(cost_of(7200, 0, {.gpu_hour = 2.5, .kwh = 0.5}));
}

TEST_CASE("a file of prices has numbers that are not negative, and a currency") {
  const auto prices = parse_usage_prices("gpu_hour = 2\ncurrency = \"EUR\"\n", "prices.toml");
  REQUIRE(prices);
  CHECK(prices->gpu_hour == 2);
  CHECK_FALSE(prices->kwh);
  CHECK(prices->currency == "EUR");
  CHECK_FALSE(parse_usage_prices("", "prices.toml")->any());
  CHECK(parse_usage_prices("kwh = -1\n", "prices.toml").error().id == "E0605");
  CHECK(parse_usage_prices("gpu = 1\n", "prices.toml").error().id == "E0603");
  CHECK(parse_usage_prices("gpu_hour = \"2\"\n", "prices.toml").error().id == "E0604");
}
