// Tests of versions: their order by PEP 440 and Debian, the numbers of a release, and abbreviated
// versions.
#include "doctor/knowledge/version.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace berth::doctor;

TEST_CASE("versions are ordered by PEP 440, in every permitted spelling") {
  const std::vector<std::string> ascending = {
      "2.9.1",      "2.10.0.dev20250101", "2.10.0.dev20250102", "2.10.0a1.dev2", "2.10.0a1",
      "2.10.0.b2",  "2.10.0-beta3",       "2.10.0rc1.dev1",     "2.10.0rc1",     "2.10.0c2",
      "2.10.0",     "2.10.0.post1.dev3",  "2.10.0.post1",       "2.10.0-2",      "2.10.1",
      "2.11.0.dev1"};
  for (std::size_t i = 0; i < ascending.size(); ++i)
    for (std::size_t k = 0; k < ascending.size(); ++k) {
      const int order = compare_versions(ascending[i], ascending[k]);
      CHECK_MESSAGE((order < 0) == (i < k), ascending[i] << " and " << ascending[k]);
      CHECK_MESSAGE((order == 0) == (i == k), ascending[i] << " and " << ascending[k]);
    }
}

TEST_CASE("versions with a tilde or a revision are ordered by Debian's rules") {
  CHECK(compare_versions("1.14.0~rc.2-1", "1.14.0-1") < 0);
  CHECK(compare_versions("1.14.3-1", "1.14.3-2") < 0);
  CHECK(compare_versions("1.14.3", "1.14.3-1") < 0);
}

TEST_CASE("local parts and zeros at the end do not count") {
  CHECK(compare_versions("2.4.1+cu124", "2.4.1") == 0);
  CHECK(compare_versions("2.4", "2.4.0") == 0);
  CHECK(compare_versions("550.54", "550.54.15") < 0);
}

TEST_CASE("a nightly build counts as its release") {
  CHECK(compare_versions("2.10.0.dev20250101", "2.10") < 0);
  CHECK_FALSE(is_older("2.10.0.dev20250101", "2.10"));
  CHECK(is_older("2.9.1", "2.10"));
}

TEST_CASE("a truncated version may stand for a longer one") {
  CHECK(may_be_same("535.104", "535.104.05"));
  CHECK_FALSE(may_be_same("535.104.12", "535.104.05"));
  CHECK_FALSE(may_be_same("535", "550.54.15"));
}

TEST_CASE("huge numbers in versions neither overflow nor fail") {
  const std::string nines(40, '9');
  CHECK(compare_versions(nines + "." + nines, nines) > 0);
  CHECK(compare_versions("1rc" + nines, "1") < 0);
  CHECK(compare_versions("", "1") < 0);
  CHECK(compare_versions("x", "y") == 0);
}
