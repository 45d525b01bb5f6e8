#include "base/text_parts.hpp"

#include <doctest/doctest.h>

using namespace berth;

TEST_CASE("foreign bytes become text that a terminal and JSON can show") {
  CHECK(printable("train.py 训练") == "train.py 训练");
  CHECK(printable("a\xffz") == "a\xEF\xBF\xBDz");
  CHECK(printable("\x1b[31mred") == "\xEF\xBF\xBD[31mred");
  CHECK(printable("\xed\xa0\x80") == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(printable("cut \xe8\xae") == "cut \xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_CASE("a number must be the whole text") {
  CHECK(to_number("42") == 42);
  CHECK(to_number("0x10de") == 0x10de);
  CHECK(to_number("-1") == -1);
  CHECK(!to_number(""));
  CHECK(!to_number("12 MHz"));
  CHECK(!to_number("99999999999999999999"));
}

TEST_CASE("a list of Slurm's is split outside its brackets") {
  using Parts = std::vector<std::string_view>;
  CHECK(split_outside_brackets("n[1-2,4],m,,") == Parts{"n[1-2,4]", "m"});
  CHECK(split_outside_brackets("") == Parts{});
  CHECK(split_outside_brackets("n[1,2") == Parts{"n[1,2"});
}

TEST_CASE("split keeps empty parts, and trim removes blanks at both ends") {
  CHECK(split("a,,b", ',') == std::vector<std::string_view>{"a", "", "b"});
  CHECK(split("", ',') == std::vector<std::string_view>{""});
  CHECK(trim(" \ta b\r\n") == "a b");
  CHECK(trim(" \n").empty());
}

TEST_CASE("UTF-8 is valid without overlong forms and surrogates") {
  CHECK(is_utf8("训练"));
  CHECK(!is_utf8("\xc0\xaf"));
  CHECK(!is_utf8("\xed\xa0\x80"));
}
