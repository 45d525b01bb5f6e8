#include "base/units.hpp"

#include <doctest/doctest.h>

using namespace berth;

TEST_CASE("sizes: K M G T and KiB MiB GiB TiB are binary, KB MB GB TB decimal") {
  CHECK(*parse_size("8GiB") == 8589934592ULL);
  CHECK(*parse_size("8G") == 8589934592ULL);
  CHECK(*parse_size("8GB") == 8000000000ULL);
  CHECK(*parse_size("0.5 MiB") == 524288ULL);
  CHECK(*parse_size("17B") == 17ULL);
}

TEST_CASE("a size without unit, with a strange unit, negative, huge or empty is refused") {
  for (const char* bad : {"", "8", "8.5", "GiB", "-1G", "8XB", "1e9B", "0x8G", "8G8", "nanG",
                          "infG", "1..2G", "99999999999999TiB", ".5G", "8gib"}) {
    CAPTURE(bad);
    const auto size = parse_size(bad);
    REQUIRE(!size);
    CHECK(size.error().id == "E0101");
    CHECK(size.error().code == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("shares are parts of one whole") {
  CHECK(*parse_share("30%") == doctest::Approx(0.3));
  CHECK(*parse_share("0.3") == doctest::Approx(0.3));
  CHECK(*parse_share("1") == 1.0);
  for (const char* bad : {"", "0", "0%", "101%", "1.5", "-1", "half"}) CHECK(!parse_share(bad));
}

TEST_CASE("a duration needs its unit") {
  CHECK(parse_duration("500ms")->count() == 500);
  CHECK(parse_duration("1.5h")->count() == 5400000);
  CHECK(parse_duration("1w")->count() == 7LL * 24 * 3600 * 1000);
  for (const char* bad : {"", "5", "5 y", "s", "-1s"}) CHECK(!parse_duration(bad));
}

TEST_CASE("a duration may have several units, the larger first") {
  CHECK(parse_duration("1h30m")->count() == 5400000);
  CHECK(parse_duration("2d12h")->count() == 60 * 3600 * 1000);
  CHECK(parse_duration("1 h 30 m")->count() == 5400000);
  CHECK(parse_duration("7d")->count() == 7LL * 24 * 3600 * 1000);
  for (const char* bad : {"30m1h", "1h1h", "1h30", "1h m", "1h-5m", "1h5m ", "h30m"})
    CHECK(!parse_duration(bad));
}

TEST_CASE("bytes are shown with three figures in binary units") {
  CHECK(show_bytes(0) == "0 B");
  CHECK(show_bytes(999) == "999 B");
  CHECK(show_bytes(1024) == "1.00 KiB");
  CHECK(show_bytes(65712000000ULL) == "61.2 GiB");
  CHECK(show_bytes(1023ULL << 20) == "1.00 GiB");
}

TEST_CASE("durations are shown in two units") {
  using std::chrono::milliseconds;
  CHECK(show_duration(milliseconds(80)) == "80 ms");
  CHECK(show_duration(milliseconds(12400)) == "12.4 s");
  CHECK(show_duration(milliseconds(221000)) == "3 m 41 s");
  CHECK(show_duration(milliseconds(8040000)) == "2 h 14 m");
}
