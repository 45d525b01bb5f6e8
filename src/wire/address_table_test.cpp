#include "wire/address_table.hpp"

#include <doctest/doctest.h>
#include <map>
#include <random>

TEST_CASE("the table behaves like a map in any order of insertions and removals") {
  berth::wire::AddressTable<std::uint64_t> table;
  std::map<std::uint64_t, std::uint64_t> truth;
  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    // Use few keys that are close together, so that they collide, and are removed and added again.
    const std::uint64_t key = 512 * (1 + random() % 3000), value = random();
    if (random() % 2 == 0) {
      REQUIRE(table.put(key, value));
      truth[key] = value;
    } else {
      std::uint64_t taken = 0;
      const auto there = truth.find(key);
      REQUIRE(table.take(key, taken) == (there != truth.end()));
      if (there == truth.end()) continue;
      REQUIRE(taken == there->second);
      truth.erase(there);
    }
    REQUIRE(table.size() == truth.size());
  }
  std::size_t seen = 0;
  table.for_each([&](std::uint64_t key, std::uint64_t& value) {
    ++seen;
    CHECK(truth.at(key) == value);
  });
  CHECK(seen == truth.size());
}
