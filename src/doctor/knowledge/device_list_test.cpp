#include "doctor/knowledge/device_list.hpp"

#include <doctest/doctest.h>

using namespace berth::doctor;

TEST_CASE("a list of visible devices is split into tokens, without an empty one at its end") {
  using Tokens = std::vector<std::string_view>;
  CHECK(listed_devices("0,1") == Tokens{"0", "1"});
  CHECK(listed_devices("0,1,") == Tokens{"0", "1"});
  CHECK(listed_devices("0, 1") == Tokens{"0", " 1"});
  CHECK(listed_devices("0,,1") == Tokens{"0", "", "1"});
  CHECK(listed_devices("") == Tokens{""});
}

TEST_CASE("a token counts as the number at its start, or else as a name") {
  CHECK(listed_number("12") == 12U);
  CHECK(listed_number("1gpu") == 1U);
  CHECK_FALSE(listed_number(" 1"));
  CHECK_FALSE(listed_number("-1"));
  CHECK_FALSE(listed_number("cuda:1"));
  CHECK_FALSE(listed_number("123456"));
  CHECK(names_device("MIG-1"));
  CHECK_FALSE(names_device("1"));
}

TEST_CASE("a repaired device list has the valid numbers and names, each once") {
  CHECK(plain_device_list("0, 2") == "0,2");
  CHECK(plain_device_list("0,2,") == "0,2");
  CHECK(plain_device_list("3,3") == "3");
  CHECK(plain_device_list("1,cuda:2, GPU-aa") == "1,GPU-aa");
  CHECK(plain_device_list("-1").empty());
  CHECK(hides_every_device("-1,0"));
  CHECK(hides_every_device(""));
  CHECK_FALSE(hides_every_device("0,-1"));
}

TEST_CASE("several numbers in one token are intended by the user, but not read by CUDA") {
  CHECK(several_in_one("0-3") == "0,1,2,3");
  CHECK(several_in_one("0;1") == "0,1");
  CHECK(several_in_one("0 1 2") == "0,1,2");
  CHECK(several_in_one("2..4") == "2,3,4");
  for (const char* one : {"0", "00", "0x2", "3gpu", "GPU-12ab", "", "0-", "7-3-2-99999999999"}) {
    CAPTURE(one);
    CHECK(several_in_one(one).find(',') == std::string::npos);
  }
}
