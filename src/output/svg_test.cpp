#include "output/svg.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace berth::output;

namespace {

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("bars have lengths in proportion, and hostile names stay text") {
  const std::string svg =
      bars_svg("t", "s", {{"g", {{"<a>&", "1", 1}, {"b", "2", 2}, {"c", "no", 0}}}}, {"n"});
  CHECK(svg.find("&lt;a&gt;&amp;") != std::string::npos);
  CHECK(svg.find("<a>") == std::string::npos);
  CHECK(count(svg, "width=\"200.0\"") == 1);
  CHECK(count(svg, "width=\"400.0\"") == 1);
  CHECK(count(svg, "<rect") == 3);  // the background and two bars
  CHECK(svg.ends_with("</svg>\n"));
}

TEST_CASE("a crossing is marked only inside the picture") {
  const CostLine buy{"buy", 100, 1, {}};
  const auto svg_with = [&](double meets) {
    return cost_lines_svg("t", "s", "months", 36, {buy, {"rent", 0, 11, meets}}, {});
  };
  CHECK(count(svg_with(10), "<circle") == 1);
  CHECK(svg_with(10).find(">10.0</text>") != std::string::npos);
  CHECK(count(svg_with(40), "<circle") == 0);
}

TEST_CASE("a picture without lines is still a picture") {
  const std::string svg = cost_lines_svg("t", "s", "months", 36, {}, {"unknown"});
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  CHECK(svg.find("unknown") != std::string::npos);
}
