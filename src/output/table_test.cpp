#include "output/table.hpp"

#include <doctest/doctest.h>

using namespace berth::output;

TEST_CASE("columns are aligned in any script, and no line ends in blanks") {
  Table table({{"name"}, {"memory", true}, {"empty"}});
  table.add({"训练", "1 GiB"});
  table.add({"train", "12 GiB"});
  CHECK(table.render(Terminal{}) == "name   memory\n训练    1 GiB\ntrain  12 GiB\n");
}

TEST_CASE("the flexible column shrinks on a narrow terminal") {
  Table table({{"pid", true}, {"command", false, kLeastText}});
  table.add({"1", "python train.py --with many --long options"});
  Terminal narrow;
  narrow.width = 20;
  CHECK(table.render(narrow) == "pid  command\n  1  python train.p…\n");
}

TEST_CASE(
    "of two columns that may be clipped the last gives way first, and neither before a column is "
    "left out") {
  Table table({{"name", false, 10}, {"use", true, 0, 1}, {"command", false, kLeastText}});
  table.add({"a name of many words", "5 %", "python train.py --with many"});
  const auto of_width = [&](int width) {
    Terminal terminal;
    terminal.width = width;
    return table.render(terminal);
  };
  CHECK(of_width(50).find("a name of many words  5 %  python train.py --with…") !=
        std::string::npos);
  CHECK(of_width(40).find("a name of many w…  5 %  python train.py…\n") != std::string::npos);
  CHECK(of_width(30).find("a name of m…  python train.py…\n") != std::string::npos);
  CHECK(of_width(20).find("a name of…  python …\n") != std::string::npos);
  CHECK(of_width(10).find("a nam…  pytho…\n") != std::string::npos);
}

TEST_CASE("clipping counts columns, not bytes, and never cuts a character") {
  CHECK(clip("训练脚本", 5) == "训练…");
  CHECK(clip("训练脚本", 4) == "训…");
  CHECK(clip("abc", 3) == "abc");
  CHECK(display_width("训练") == 4);
  CHECK(pad("训", 4) == "训  ");
}

TEST_CASE("in a pipe, nothing is cut or left out") {
  Table table({{"name"}, {"what it says", false, 6}, {"age", true, 0, 1}});
  table.add({"a", "the driver does not list it any more, since a long time", "12 s"});
  Terminal terminal;
  terminal.width = 30;
  std::vector<std::string> dropped;
  CHECK(table.render(terminal, &dropped).find("…") != std::string::npos);
  dropped.clear();
  terminal.is_limited = false;
  const std::string whole = table.render(terminal, &dropped);
  CHECK(whole.find("since a long time  12 s\n") != std::string::npos);
  CHECK(dropped.empty());
}
