#include "vendor/amd/text.hpp"

#include <doctest/doctest.h>

using namespace berth::amd;

TEST_CASE("clock levels, also broken ones") {
  const auto clocks = parse_clock_levels("S: 19Mhz *\n0: 500Mhz \n1: 2526Mhz \n");
  CHECK(clocks.current_mhz == 19U);
  CHECK(clocks.highest_mhz == 2526U);
  CHECK(!parse_clock_levels("").highest_mhz);
  CHECK(!parse_clock_levels("0: *\n: 5\n0: 99999999999999999999Mhz *\n1: 5 apples\n").highest_mhz);
}

TEST_CASE("link levels, also broken ones") {
  const auto link = parse_link_levels("0: 2.5GT/s, x1 \n1: 16.0GT/s, x16 1150Mhz *\n");
  CHECK(link.gts == 16.0);
  CHECK(link.width == 16U);
  CHECK(!parse_link_levels("0: 2.5GT/s, x1 \n").gts);
  CHECK(!parse_link_levels("*").gts);
  CHECK(!parse_link_levels("1: 8.0GT/s, x999 *").width);
}

TEST_CASE("error counts, also broken ones") {
  CHECK(parse_error_counts("ue: 2\nce: 3\nde: 4\n").uncorrected == 2U);
  CHECK(parse_error_counts("ue: 2\nce: 3\n").corrected == 3U);
  CHECK(!parse_error_counts("ue: -1\nce: many\n").uncorrected);
}

TEST_CASE("architecture names") {
  CHECK(architecture_of(110000) == "gfx1100");
  CHECK(architecture_of(90010) == "gfx90a");
  CHECK(architecture_of(90402) == "gfx942");
  CHECK(architecture_of(120001) == "gfx1201");
  CHECK(architecture_of(0).empty());
  CHECK(architecture_of(~0ULL).empty());
}

TEST_CASE("kfd nodes, also broken ones") {
  const auto node = parse_kfd_properties(
      "cpu_cores_count 0\nsimd_count 192\ngfx_target_version 110000\nlocation_id 33024\ndomain 1\n"
      "unique_id 18446744073709551615\n");
  CHECK(node.simd_count == 192);
  CHECK(node.unique_id == ~0ULL);
  CHECK(pci_address_of(node) == "0001:81:00.0");
  CHECK(parse_kfd_properties("simd_count many\n\n simd_count 3\nsimd_count\n").simd_count == 0);
}
