#include "top/graph.hpp"

#include <doctest/doctest.h>

#include "output/terminal.hpp"

using namespace berth::top;

TEST_CASE("the newest value is at the right, and what is not known stays empty") {
  const auto lines = draw_graph({100.0, std::nullopt, 50.0}, 3, 1, false);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "# .");
  CHECK(draw_graph({100.0}, 3, 1, false)[0] == "  #");
}

TEST_CASE("braille has two values a column and four a row") {
  CHECK(draw_graph({100.0, 100.0}, 1, 1, true)[0] == "⣿");
  CHECK(draw_graph({0.0, 100.0}, 1, 1, true)[0] == "⣸");
  CHECK(draw_graph({50.0, 50.0}, 1, 1, true)[0] == "⣤");
}

TEST_CASE("a graph has the requested width and height for all values") {
  for (const bool utf8 : {true, false})
    for (const double value : {-1e9, 0.0, 1e9}) {
      const auto lines = draw_graph({value, value, value}, 10, 3, utf8);
      REQUIRE(lines.size() == 3);
      for (const auto& line : lines) CHECK(berth::output::display_width(line) == 10);
    }
  CHECK(draw_graph({}, 0, 0, true).empty());
}

TEST_CASE("an unknown value has no bar, and 0 % an empty one") {
  CHECK(draw_bar(std::nullopt, 4, true) == "    ");
  CHECK(draw_bar(0.0, 4, true) == "▁▁▁▁");
  CHECK(draw_bar(50.0, 4, false) == "##__");
  CHECK(draw_bar(1e9, 4, false) == "####");
}
