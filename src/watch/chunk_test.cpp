#include "watch/chunk.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace berth::watch;

namespace {

Chunk noisy_chunk(unsigned seed) {
  std::mt19937 random(seed);
  Chunk chunk;
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    Moment& moment = chunk[i];
    moment[0] = static_cast<double>(random() % 101);
    moment[1] = i % 7 == 0 ? std::nullopt : std::optional<double>(50);
    moment[2] = static_cast<double>(std::uint64_t{40 << 10} + random() % 64) * (1 << 20);
    moment[3] = 60.0 + static_cast<double>(random() % 3);
    moment[4] = 600'000.0 + static_cast<double>(random() % 500) * 100;
  }
  return chunk;
}

}  // namespace

TEST_CASE("an encoded chunk is decoded unchanged") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const Chunk chunk = noisy_chunk(seed);
    const auto back = decode(encode(chunk));
    REQUIRE(back);
    CHECK(*back == chunk);
  }
  const auto empty = decode(encode(Chunk{}));
  REQUIRE(empty);
  CHECK(*empty == Chunk{});
}

TEST_CASE("a minute of a GPU at work takes less than 700 bytes, one of an idle GPU less than 40") {
  CHECK(encode(noisy_chunk(1)).size() < 700);  // 700 bytes a minute are 1 MB a day
  Chunk idle;
  for (Moment& moment : idle) moment = {0, 0, 1 << 20, 33, 70'000, 300};
  CHECK(encode(idle).size() < 40);
}

TEST_CASE("a reading that is out of range is stored as absent") {
  Chunk chunk;
  chunk[0][0] = 1e300;
  chunk[1][0] = std::nan("");
  chunk[2][0] = -5;
  const auto back = decode(encode(chunk));
  REQUIRE(back);
  CHECK_FALSE((*back)[0][0]);
  CHECK_FALSE((*back)[1][0]);
  CHECK(*(*back)[2][0] == -5);
}

TEST_CASE("damaged bytes are refused, and never decode to more than a chunk") {
  const std::string good = encode(noisy_chunk(3));
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    for (int j = 0; j < 3; ++j) bad[random() % bad.size()] = static_cast<char>(random());
    bad.resize(random() % (bad.size() + 1));
    static_cast<void>(decode(bad));
  }
  CHECK_FALSE(decode(""));
  CHECK_FALSE(decode("\x02"));
  CHECK_FALSE(decode(good + "x"));
  CHECK_FALSE(decode(std::string_view("\x01\x00\xff\xff\xff\xff\x0f", 7)));
}

TEST_CASE("a mean is over the known values") {
  Mean mean;
  CHECK(mean.empty());
  Moment one, other;
  one[0] = 10;
  other[0] = 20;
  other[3] = 50;
  mean.add(one);
  mean.add(other);
  const Moment taken = mean.take();
  CHECK(*taken[0] == 15);
  CHECK(*taken[3] == 50);
  CHECK_FALSE(taken[1]);
  CHECK(mean.empty());
}
