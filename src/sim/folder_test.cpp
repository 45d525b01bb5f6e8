#include "sim/folder.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

using namespace berth::sim;

TEST_CASE("a starting simulation never removes the unfinished folder of another one") {
  std::string temporary = "/tmp/berth-test-XXXXXX";
  REQUIRE(mkdtemp(temporary.data()) != nullptr);
  std::atomic<bool> over = false;
  std::thread other([&] {
    while (!over) remove_stale_folders(temporary);
  });
  int made = 0;
  for (int i = 0; i < 500; ++i) {
    auto folder = Folder::make(temporary);
    if (!folder) continue;
    made += std::filesystem::exists(folder->path() + "/lock") && folder->write("file", "x") ? 1 : 0;
    folder->remove();
  }
  over = true;
  other.join();
  CHECK(made == 500);
  std::filesystem::remove_all(temporary);
}
