#include "engines/own_queue.hpp"

#include <doctest/doctest.h>
#include <sys/file.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "engines/machines_for_tests.hpp"

namespace berth::engines {
namespace {

using Names = std::vector<std::string>;

struct Folder {
  Folder() { path = ::mkdtemp(name); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void write(const char* words) const { std::ofstream(path + "/own-queue") << words; }
  char name[32] = "/tmp/berth-own-queue-XXXXXX";
  std::string path;
};

TEST_CASE("units are closed and opened for pods, and the file says which") {
  const Folder folder;
  const OwnQueue queue(folder.path);
  CHECK(queue.units()->empty());
  REQUIRE(queue.set({"GPU-a", "GPU-b"}, true));
  REQUIRE(queue.set({"GPU-a"}, true));
  CHECK(queue.units().value() == Names{"GPU-b", "GPU-a"});
  REQUIRE(queue.set({"GPU-b", "GPU-c"}, false));
  CHECK(queue.units().value() == Names{"GPU-a"});
  auto units = two_units();
  queue.apply(units);
  CHECK_FALSE(units[0].healthy);
  CHECK(units[0].fault == kOwnQueueFault);
  CHECK(units[1].healthy);
}

TEST_CASE("a damaged file closes all units, and opens none") {
  const Folder folder;
  const OwnQueue queue(folder.path);
  for (const char* wrong : {"", "x", "GPU-a\n", "units in Berth's own queue:\nGPU-a"}) {
    folder.write(wrong);
    CHECK(queue.units().error().id == "E1081");
    CHECK_FALSE(queue.set({"GPU-a"}, false));
    auto units = two_units();
    queue.apply(units);
    CHECK_FALSE(units[0].healthy);
    CHECK_FALSE(units[1].healthy);
  }
  CHECK_FALSE(OwnQueue("/nonexistent").set({"GPU-a"}, true));
}

TEST_CASE("nothing is closed while a device is given to a pod") {
  const Folder folder;
  const OwnQueue queue(folder.path);
  auto held = queue.hold();
  REQUIRE(held);
  CHECK_MESSAGE(queue.hold(), "several may give at once");
  std::thread other([&] { CHECK(queue.set({"GPU-a"}, true)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(queue.units()->empty());
  held->reset();
  other.join();
  CHECK(queue.units().value() == Names{"GPU-a"});
}

TEST_CASE("an existing folder keeps its permissions, and one that others may write is refused") {
  namespace fs = std::filesystem;
  const Folder folder;
  const auto mode = [](const std::string& path) {
    return static_cast<unsigned>(fs::status(path).permissions());
  };
  const std::string made = folder.path + "/made/state", found = folder.path + "/found";
  REQUIRE(OwnQueue(made).make_folder("berth k8s dra"));
  CHECK(mode(made) == 0700);
  fs::create_directory(found);
  for (const unsigned kept : {0755U, 0710U}) {
    fs::permissions(found, fs::perms(kept));
    CHECK(OwnQueue(found).make_folder("berth k8s dra"));
    CHECK(mode(found) == kept);
  }
  // Folders that others may write to are refused. 01777 is the mode of /tmp.
  for (const unsigned open : {01777U, 0775U}) {
    fs::permissions(found, fs::perms(open));
    const auto refused = OwnQueue(found).make_folder("berth k8s dra");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().id == "E0514");
    CHECK(mode(found) == open);
    if (open == 01777U) CHECK(refused.error().hint == "berth k8s dra --state " + found + "/berth");
  }
}

}  // namespace
}  // namespace berth::engines
