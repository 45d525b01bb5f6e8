#include "run/rank_log.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/file.hpp"

using namespace berth;
using namespace berth::run;

namespace {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("berth-rank-log-" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string text(const char* name) const {
    return slurp((path / name).string(), 1 << 20).value_or("none");
  }
};

}  // namespace

TEST_CASE("a short log is one file, and the parts of an earlier run are removed") {
  const Folder folder;
  std::ofstream(folder.path / "rank-0.log.1") << "old";
  RankLog log;
  REQUIRE(log.open((folder.path / "rank-0.log").string(), 4000));
  CHECK(log.write(std::string(2000, 'a')));
  CHECK_FALSE(log.is_split());
  CHECK(folder.text("rank-0.log") == std::string(2000, 'a'));
  CHECK(folder.text("rank-0.log.1") == "none");
}

TEST_CASE("of a long log the beginning and the end stay, and it says so") {
  const Folder folder;
  RankLog log;
  REQUIRE(log.open((folder.path / "rank-0.log").string(), 4000));
  std::string all;
  for (int i = 0; all.size() < 20'000; ++i) all += "line " + std::to_string(i) + "\n";
  // Pieces of all sizes, also some that are larger than a part.
  for (std::size_t at = 0, size = 1; at < all.size(); at += size, size = size * 3 % 5003 + 1)
    CHECK(log.write(all.substr(at, size)));
  CHECK(log.is_split());
  const std::string begin = folder.text("rank-0.log");
  const std::string end = folder.text("rank-0.log.1") + folder.text("rank-0.log.2");
  CHECK(begin.substr(0, 2000) == all.substr(0, 2000));
  CHECK(begin.substr(2000) ==
        "\n[berth] the log stops here; its last part is in rank-0.log.1 and rank-0.log.2\n");
  CHECK(end.size() > 1000);
  CHECK(end.size() <= 2000);
  CHECK(all.substr(all.size() - end.size()) == end);
  CHECK(2000 + log.left_out() + end.size() == all.size());
}

TEST_CASE("a log that cannot be written is closed, and the error is known") {
  RankLog log;
  CHECK_FALSE(log.open("/proc/none/rank-0.log", 4000));
  CHECK_FALSE(log.is_open());
  if (!log.open("/dev/full", 4000)) return;  // some containers do not have /dev/full
  CHECK_FALSE(log.write("a"));
  CHECK_FALSE(log.is_open());
}
