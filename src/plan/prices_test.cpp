#include "plan/prices.hpp"

#include <doctest/doctest.h>

#include "plan/catalogue.hpp"

using namespace berth;
using namespace berth::plan;
using std::chrono::sys_days;
using std::chrono::year;

namespace {
constexpr sys_days kToday = year{2026} / 11 / 26;

Prices own(const std::string& rows) {
  auto prices = read_prices("currency = \"CNY\"\n" + rows, "own.toml");
  REQUIRE(prices);
  return std::move(*prices);
}
}  // namespace

TEST_CASE("every known price names a GPU of the catalogue, a source and at least one figure") {
  const Prices prices = known_prices();
  CHECK(prices.currency == "USD");
  CHECK(prices.cloud.size() > 50);
  CHECK(prices.cards.size() > 30);
  for (const Instance& one : prices.cloud) {
    CAPTURE(one.name);
    CHECK(find_gpu(one.gpu));
    CHECK(one.on_demand.value_or(0) > 0);
    CHECK_FALSE(one.source.url.empty());
  }
  for (const Card& one : prices.cards) {
    CAPTURE(one.gpu);
    CHECK(one.price > 0);
    CHECK(age_days(one.source.as_of, kToday));
  }
}

TEST_CASE("only whole instances are rented, and the cheapest combination wins") {
  const Prices prices = own(
      "cloud = [{ provider = \"a\", instance = \"one\", gpu = \"L4\", gpus = 1, on_demand = 3 },\n"
      "  { provider = \"b\", instance = \"four\", gpu = \"L4\", gpus = 4, on_demand = 8, spot = 1 "
      "}]\n");
  const auto one = cheapest(prices, "L4", 1, Terms::kOnDemand);
  REQUIRE(one);
  CHECK(one->instance->name == "one");
  CHECK(one->per_hour == 3);
  const auto three = cheapest(prices, "L4", 3, Terms::kOnDemand);
  REQUIRE(three);
  CHECK(three->instance->name == "four");
  const auto six = cheapest(prices, "L4", 6, Terms::kOnDemand);
  REQUIRE(six);
  CHECK(six->instances == 2);
  CHECK(six->per_hour == 16);
  CHECK(cheapest(prices, "L4", 1, Terms::kSpot)->per_hour == 1);
  CHECK_FALSE(cheapest(prices, "L4", 1, Terms::kReserved));
  CHECK_FALSE(cheapest(prices, "A100 SXM4 80GB", 1, Terms::kOnDemand));
}

TEST_CASE("buying pays once the saved rent has reached the price") {
  CHECK(break_even_months({1000, 20}, 120) == doctest::Approx(10));
  CHECK_FALSE(break_even_months({1000, 120}, 120));
  CHECK_FALSE(break_even_months({1000, 0}, 0));
}

TEST_CASE("the age of a price counts from its date, and an unknown date has no age") {
  CHECK(age_days("2026-11-26", kToday) == 0);
  CHECK(age_days("2026-08-28", kToday) == 90);
  CHECK(age_days("2026-10", kToday) == 56);
  for (const char* bad : {"", "2026", "2026-13-01", "2026-02-30", "yesterday!", "2026-00"})
    CHECK_FALSE(age_days(bad, kToday));
}

TEST_CASE("an invalid file of prices is refused with the line") {
  const auto refused = [](const std::string& document) {
    const auto prices = read_prices(document, "own.toml");
    REQUIRE_FALSE(prices);
    return prices.error().id;
  };
  CHECK(refused("currency = 5") == "E0604");
  CHECK(refused("currency = \"euros\"") == "E0605");
  for (const char* wrong : {"XXQ", "RMB", "usd", "D A", ""})
    CHECK(refused("currency = \"" + std::string(wrong) + "\"") == "E0605");
  CHECK(refused("currency = \"EUR\"\ncolour = 1") == "E0603");
  CHECK(refused("currency = \"EUR\"\ncard = [{ gpu = \"L4\", price = -1 }]") == "E0605");
  CHECK(refused("currency = \"EUR\"\ncard = [{ gpu = \"no such card\", price = 1 }]") == "E0977");
  CHECK(refused("currency = \"EUR\"\ncard = [{ gpu = \"L4\", price = 1, source = \"x\" }]") ==
        "E0605");
  CHECK(refused("currency = ") == "E0602");
}
