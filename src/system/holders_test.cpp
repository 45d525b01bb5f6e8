#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>
#include <test_paths.hpp>

#include <chrono>
#include <filesystem>

#include "system/process.hpp"
#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::system;
using namespace std::chrono_literals;

namespace {

std::string stat_text(int pid, char state) {
  return std::to_string(pid) + " (python) " + state +
         " 1 1 1 0 -1 4194304 0 0 0 0 1 1 0 0 20 0 1 0 100 0 0 0\n";
}

}  // namespace

TEST_CASE("the holders of device nodes are found through their descriptors") {
  const std::string root = std::string(BERTH_TEST_MACHINES) + "/processes-host";
  const Roots roots{root + "/proc", root + "/sys", root + "/dev", root + "/etc", root + "/proc"};
  const HolderSearch found = find_holders(roots, {"/dev/nvidia"}, 10s);
  CHECK(found.finished);
  REQUIRE(found.holders.size() == 3);
  CHECK(found.holders[0].holder.pid == 4121);
  CHECK(found.holders[0].holder.user == "lin");
  CHECK(found.holders[0].nodes ==
        std::vector<std::string>{"/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"});
  CHECK(found.holders[1].holder.pid == 4188);
  CHECK(found.holders[2].holder.state == "D");
  CHECK(device_holders(roots, "/dev/dri/renderD").size() == 1);
  CHECK(device_holders(roots, "/dev/kfd").empty());
}

TEST_CASE("a zombie whose thread still holds a node is a holder") {
  const TemporaryTree tree;
  tree.put("proc/7000/stat", stat_text(7000, 'Z'));
  tree.folder("proc/7000/fd");
  tree.link("proc/7000/task/7003/fd/12", "/dev/nvidia3");
  const HolderSearch found = find_holders(tree.roots(), {"/dev/nvidia"}, 10s);
  REQUIRE(found.holders.size() == 1);
  CHECK(found.holders[0].holder.state == "Z");
  CHECK(found.holders[0].nodes == std::vector<std::string>{"/dev/nvidia3"});
}

TEST_CASE("the search for holders ends when its time is up and says so") {
  const TemporaryTree tree;
  for (int pid = 1; pid <= 500; ++pid) tree.folder("proc/" + std::to_string(pid) + "/fd");
  const HolderSearch none = find_holders(tree.roots(), {"/dev/nvidia"}, 0ms);
  CHECK(!none.finished);
  const HolderSearch all = find_holders(tree.roots(), {"/dev/nvidia"}, 10s);
  CHECK(all.finished);
  CHECK(all.holders.empty());
}

TEST_CASE("without /proc no holders are found, and the search is not complete") {
  const HolderSearch found = find_holders(
      Roots{"/nonexistent", "/nonexistent", "/nonexistent", "/nonexistent", "/nonexistent"},
      {"/dev/nvidia"}, 1s);
  CHECK(found.holders.empty());
  CHECK(!found.all_readable);
}

TEST_CASE("a real descriptor of our own is seen") {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  bool seen = false;
  // Use a long time limit: on a busy machine, a tenth of a second is not enough for all processes.
  for (const NodeHolder& one :
       find_holders(Roots{}, {"/dev/null"}, std::chrono::minutes(1)).holders)
    seen = seen || one.holder.pid == ::getpid();
  CHECK(seen);
  ::close(fd);
}
