#include "model/cpu_list.hpp"

#include <doctest/doctest.h>

using namespace berth::model;

TEST_CASE("processor lists survive a round trip in the kernel's format") {
  CHECK(show_cpu_list(*parse_cpu_list("0-3,8,10-11\n")) == "0-3,8,10-11");
  CHECK(parse_cpu_list("")->empty());
  CHECK(show_cpu_list(*parse_cpu_list("3,1,2,2")) == "1-3");
}

TEST_CASE("hostile processor lists are refused, not expanded") {
  for (const char* bad :
       {"a", "1-", "-1", "3-1", "0-99999999", "1,,2", "1 2", "0-8191,0-8191,0-8191"})
    CHECK(!parse_cpu_list(bad));
}

TEST_CASE("intersection keeps what both have") {
  CHECK(intersection({0, 1, 2}, {1, 2, 3}) == std::vector<int>{1, 2});
}
