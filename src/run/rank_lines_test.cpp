#include "run/rank_lines.hpp"

#include <doctest/doctest.h>

using berth::run::RankLines;
using berth::run::Tail;

TEST_CASE("lines come whole, whatever pieces they were written in") {
  RankLines lines("[rank 1] ");
  CHECK(lines.add("one") == "");
  CHECK(lines.add(" line\nand ") == "[rank 1] one line\n");
  CHECK(lines.add("more\n\n") == "[rank 1] and more\n[rank 1] \n");
  CHECK_FALSE(lines.has_rest());
}

TEST_CASE("the last state of a progress bar is shown") {
  RankLines lines("> ");
  CHECK(lines.add(" 1 %\r 50 %\r100 %\n") == "> 100 %\n");
  CHECK(lines.add("Windows\r\n") == "> Windows\n");
  CHECK(lines.add(" 3 %\r") == "");
  CHECK(lines.take_rest() == ">  3 %\n");
  CHECK(lines.take_rest() == "");
}

TEST_CASE("a line without end uses at most the memory of the longest line") {
  RankLines lines("");
  std::size_t shown = 0;
  for (int i = 0; i < 1000; ++i) shown += lines.add(std::string(1000, 'x')).size();
  CHECK(shown > 950'000);
  RankLines bar("");
  for (int i = 0; i < 100'000; ++i) CHECK(bar.add("50 %\r") == "");
  CHECK(bar.take_rest().size() < RankLines::kLongest + 2);
}

TEST_CASE("a tail keeps the last bytes") {
  Tail tail(4);
  tail.add("abc");
  tail.add("defgh");
  CHECK(tail.bytes() == "efgh");
  tail.add("0123456789");
  CHECK(tail.bytes() == "6789");
  tail.add("x");
  CHECK(tail.bytes() == "789x");
}
