#include "doctor/read/silent_mounts.hpp"

#include <doctest/doctest.h>

#include <cerrno>

#include "doctor/read/process.hpp"
#include "doctor/tree/tree.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using berth::system::TemporaryTree;

TEST_CASE("mounts with a remote server are distinguished from the kernel's own by their device") {
  const auto served = served_mounts(
      "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "23 22 0:5 / /proc rw - proc proc rw\n"
      "24 22 0:40 / /home rw - autofs systemd-1 rw\n"
      "25 24 0:52 / /home/ada\\040l rw,nosuid shared:7 - nfs4 files:/home/ada rw,hard\n"
      "26 22 0:52 /data /data rw - nfs4 files:/home/ada rw,hard\n"
      "27 22 0:60 / /run/user/1000/doc rw - fuse.portal portal rw\n"
      "nonsense\n");
  REQUIRE(served.size() == 2);
  CHECK(served[0] == std::vector<std::string>{"/home/ada l", "/data"});
  CHECK(served[1] == std::vector<std::string>{"/run/user/1000/doc"});
}

TEST_CASE("a mount that answers, or that does not exist, is not silent") {
  const TemporaryTree folder;
  MountsAsked asked("/proc/self", "", {{"HOME", folder.path}, {"TMPDIR", "/nonexistent"}});
  for (const std::string& one : asked.finish(std::chrono::seconds(20))) {
    CHECK(one != folder.path);
    CHECK(one != "/nonexistent");
  }
}

TEST_CASE("paths on a silent mount are not read, and all others are") {
  const TemporaryTree folder;
  folder.put("srv/home/ada/.local/a", "1");
  folder.put("etc/a", "1");
  folder.link("home", "srv/home");
  folder.link("scratch", "/home/ada/../ada/.local");
  folder.link("etc/loop", "loop");
  Tree tree(folder.path);
  CHECK(tree.read("/scratch/a"));
  tree.silence("/srv/home/ada");
  for (const char* path : {"/srv/home/ada", "/srv/home/ada/.local/a", "/home/ada/.local/a",
                           "/scratch/a", "/etc/../home/./ada"}) {
    CAPTURE(path);
    CHECK(tree.is_silent(path));
    REQUIRE(tree.node(path).is_unreadable());
    CHECK(tree.node(path).why().error_number == ETIMEDOUT);
  }
  CHECK(tree.read("/scratch/a").is_unreadable());
  CHECK(tree.list("/scratch").is_unreadable());
  CHECK(tree.resolve("/scratch/a").is_unreadable());
  CHECK(tree.read("/etc/a"));
  CHECK_FALSE(tree.is_silent("/srv/home/adam"));
  CHECK_FALSE(tree.is_silent("/etc/loop/a"));
}

TEST_CASE("disk space of a silent mount is unknown, that of others is known") {
  const TemporaryTree folder;
  folder.put("home/a", "");
  Tree tree("/");
  tree.silence(folder.path + "/home");
  const auto spaces =
      disk_space_of(tree, {{"HOME", folder.path + "/home"}, {"TMPDIR", folder.path}}, 0);
  CHECK(spaces.has_value());
  CHECK_FALSE(spaces.is_whole());
  for (const DiskSpace& space : *spaces) CHECK(space.what != "HOME");
}
