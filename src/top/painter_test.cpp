#include "top/painter.hpp"

#include <doctest/doctest.h>

using namespace berth::top;
using berth::output::Style;

namespace {

TerminalWords words() {
  TerminalWords words;
  words.move = [](int row, int column) {
    return "{" + std::to_string(row) + "," + std::to_string(column) + "}";
  };
  words.clear = "<clear>";
  words.clear_line = "<el>";
  words.plain = "<0>";
  words.styles = {"", "<b>", "<d>", "<r>", "<y>", "<g>", "<c>"};
  return words;
}

std::string change(const std::vector<Line>& before, const std::vector<Line>& after,
                   const TerminalWords& terminal = words(), PictureSize size = {40, 5}) {
  return paint(terminal, &before, after, size);
}

Line plain(const std::string& text) {
  return {{Style::kPlain, text}};
}

}  // namespace

TEST_CASE("the first picture clears the terminal, and has the style of each part") {
  const std::vector<Line> lines{
      {{Style::kPlain, "GPU 0  "}, {Style::kRed, "95 C"}}, {}, plain("q")};
  CHECK(paint(words(), nullptr, lines, {40, 5}) == "<0><clear>{0,0}GPU 0  <r>95 C{2,0}<0>q");
}

TEST_CASE("only cells that differ are written, and short gaps are not jumped over") {
  CHECK(change({plain("a 10 %")}, {plain("a 10 %")}).empty());
  CHECK(change({plain("a 10 % b")}, {plain("a 12 % b")}) == "{0,3}2");
  CHECK(change({plain("10 11 12")}, {plain("20 11 22")}) == "{0,0}20 11 2");
  CHECK(change({plain("1 aaaaaaaaaa 1")}, {plain("2 aaaaaaaaaa 2")}) == "{0,0}2{0,13}2");
  // Two cells change. The unchanged cell between them has another style.
  const Line before{{Style::kPlain, "1"}, {Style::kRed, "x"}, {Style::kPlain, "1"}};
  const Line after{{Style::kPlain, "2"}, {Style::kRed, "x"}, {Style::kPlain, "2"}};
  CHECK(change({before}, {after}) == "{0,0}2{0,2}2");
}

TEST_CASE("what a shorter line leaves is cleared, also if the terminal has no word for that") {
  CHECK(change({plain("abc def")}, {plain("abc")}) == "{0,3}<el>");
  CHECK(change({plain("abc def")}, {plain("abd")}) == "{0,2}d<el>");
  CHECK(change({plain("one"), plain("two")}, {plain("one")}) == "{1,0}<el>");
  TerminalWords old = words();
  old.clear_line = "";
  CHECK(change({plain("abc de")}, {plain("abc")}, old) == "{0,4}  ");
  CHECK(change({plain("abc   ")}, {plain("abc")}).empty());
}

TEST_CASE("wide and combining characters keep their columns") {
  CHECK(change({plain("训练 1")}, {plain("训练 2")}) == "{0,5}2");
  CHECK(change({plain("ab 1")}, {plain("训 1")}) == "{0,0}训");
  CHECK(change({plain("训 1")}, {plain("ab 1")}) == "{0,0}ab");
  CHECK(change({plain("e\u0301x")}, {plain("e\u0301y")}) == "{0,1}y");
  CHECK(change({plain("ex")}, {plain("e\u0301x")}) == "{0,0}e\u0301");
  // A wide character that only half fits is left out.
  CHECK(paint(words(), nullptr, {plain("abc训")}, {4, 1}) == "<0><clear>{0,0}abc");
}

TEST_CASE("nothing that a terminal would obey gets through") {
  CHECK(change({}, {plain("a\x1b[2Jb\n\x7f\u009b")}) == "{0,0}a?[2Jb???");
  TerminalWords ascii = words();
  ascii.is_utf8 = false;
  CHECK(change({}, {plain("训 é")}, ascii) == "{0,0}? ?");
}

TEST_CASE("the picture stays inside the terminal") {
  CHECK(change({}, {plain("abcdef"), plain("xy")}, words(), {3, 1}) == "{0,0}abc");
  TerminalWords old = words();
  old.scrolls_at_the_end = true;
  CHECK(change({}, {plain("abc"), plain("xyz")}, old, {3, 2}) == "{0,0}abc{1,0}xy");
}
