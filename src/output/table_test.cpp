#include "output/table.hpp"

#include <doctest/doctest.h>

using namespace berth::output;

TEST_CASE("columns align whatever the script, and no line ends in blanks") {
  Table table({{"name"}, {"memory", true}, {"empty"}});
  table.add({"训练", "1 GiB"});
  table.add({"train", "12 GiB"});
  CHECK(table.render(Terminal{}) == "name   memory\n训练    1 GiB\ntrain  12 GiB\n");
}

TEST_CASE("the flexible column gives way on a narrow terminal") {
  Table table({{"pid", true}, {"command", false, true}});
  table.add({"1", "python train.py --with many --long options"});
  Terminal narrow;
  narrow.width = 20;
  CHECK(table.render(narrow) == "pid  command\n  1  python train.p…\n");
}

TEST_CASE("clipping counts columns, not bytes, and never cuts a character") {
  CHECK(clip("训练脚本", 5) == "训练…");
  CHECK(clip("训练脚本", 4) == "训…");
  CHECK(clip("abc", 3) == "abc");
  CHECK(display_width("训练") == 4);
  CHECK(pad("训", 4) == "训  ");
}
