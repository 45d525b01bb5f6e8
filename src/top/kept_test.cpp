#include "top/kept.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace berth;
using namespace berth::top;

namespace {

struct KeptFolder {
  std::string path = "/tmp/berth-top-XXXXXX";
  KeptFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~KeptFolder() { std::filesystem::remove_all(path); }
  KeptFolder(const KeptFolder&) = delete;
  KeptFolder& operator=(const KeptFolder&) = delete;
};

}  // namespace

TEST_CASE("what keys changed is kept, and what an option said is not") {
  const KeptFolder folder;
  const std::string file = folder.path + "/config/berth/top.toml";
  Settings before;
  before.sort = "pid";  // an option of the command line has set this
  Settings after = before;
  after.has_graphs = false;
  CHECK(keep_changes(file, before, after));
  Settings next;
  read_kept(file, next);
  CHECK(next.sort == "memory");
  CHECK_FALSE(next.has_graphs);
  after = next;
  after.sort = "sm";
  after.is_reversed = true;
  after.is_tree = after.by_user = true;
  after.theme = "light";
  after.graph = "power";
  CHECK(keep_changes(file, next, after));
  read_kept(file, next);
  CHECK(next.sort == "sm");
  CHECK(next.is_reversed);
  CHECK(next.is_tree);
  CHECK(next.by_user);
  CHECK(next.theme == "light");
  CHECK_FALSE(next.has_graphs);
}

TEST_CASE("a file that is damaged or made up changes nothing") {
  const KeptFolder folder;
  const std::string file = folder.path + "/top.toml";
  for (const char* text : {"", "sort = 5", "sort = \"beauty\"", "graphs = \"no\"",
                           "theme = \"pink\"", "tree = 1", "x = 1", "\xff"}) {
    std::ofstream(file) << text;
    Settings settings;
    settings.sort = "sm";
    read_kept(file, settings);
    CHECK(settings.sort == "sm");
    CHECK(settings.has_graphs);
  }
}
