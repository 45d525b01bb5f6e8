#include "doctor/tree/tree.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using berth::system::TemporaryTree;

TEST_CASE("links through .. are followed while others rename files") {
  const berth::system::TemporaryTree folder;
  folder.put("root/devices/gpu/vendor", "0x10de\n");
  folder.put("elsewhere/a", "");
  std::filesystem::create_directories(folder.path + "/root/bus");
  std::filesystem::create_symlink("../devices/gpu", folder.path + "/root/bus/gpu");
  const Tree tree(folder.path + "/root");
  std::atomic<bool> stop = false;
  std::thread renamer([&] {
    const std::string a = folder.path + "/elsewhere/a", b = folder.path + "/elsewhere/b";
    while (!stop) {
      std::filesystem::rename(a, b);
      std::filesystem::rename(b, a);
    }
  });
  int unread = 0;
  for (int i = 0; i < 3000; ++i) unread += tree.line("/bus/gpu/vendor") ? 0 : 1;
  stop = true;
  renamer.join();
  CHECK(unread == 0);
}

TEST_CASE("an absolute link stays inside the tree") {
  const TemporaryTree folder;
  folder.put("usr/lib/libcuda.so.570.1", "inside");
  folder.link("usr/lib/libcuda.so.1", "/usr/lib/libcuda.so.570.1");
  folder.link("etc/out", "../../../../etc/passwd");
  const Tree tree(folder.path);
  CHECK(*tree.read("/usr/lib/libcuda.so.1") == "inside");
  CHECK(*tree.link("/usr/lib/libcuda.so.1") == "/usr/lib/libcuda.so.570.1");
  CHECK(*tree.resolve("/usr/lib/libcuda.so.1") == "/usr/lib/libcuda.so.570.1");
  CHECK(tree.read("/etc/out").is_absent());
}

TEST_CASE("a missing file is absent, an unreadable one is not") {
  const TemporaryTree folder;
  folder.put("a/file", " first \nsecond");
  folder.link("a/loop", "loop");
  REQUIRE(::mkfifo((folder.path + "/a/fifo").c_str(), 0600) == 0);
  Tree tree(folder.path);
  CHECK(*tree.line("/a/file") == "first");
  CHECK(*tree.read_end("/a/file", 6) == "second");
  CHECK(tree.read("/a/none").is_absent());
  CHECK(tree.read("/a/file/below").is_absent());
  CHECK(tree.read("/a/loop").is_absent());
  CHECK(tree.read("/a/fifo").why().error_number == EINVAL);
  CHECK(tree.read("/a").why().error_number == EISDIR);
  CHECK(tree.link("/a/file").is_absent());

  tree.add_special("/a/file", {std::nullopt, EACCES});
  CHECK(tree.read("/a/file").why().error_number == EACCES);
  CHECK(tree.read("/a/file").why().where == "/a/file");
  CHECK(tree.node("/a/file").is_unreadable());
}

TEST_CASE("a node of the side table is a device, in its folder and by itself") {
  const TemporaryTree folder;
  folder.put("dev/null", "");
  Tree tree(folder.path);
  Node node;
  node.type = NodeType::kCharacter;
  node.mode = 0660;
  node.major = 195;
  node.open_error = EPERM;
  tree.add_special("/dev/nvidia0", {node, 0});
  tree.add_special("/dev/dri/renderD128", {node, 0});
  CHECK(*tree.list("/dev") == std::vector<std::string>{"null", "nvidia0"});
  CHECK(*tree.list("/dev/dri") == std::vector<std::string>{"renderD128"});
  CHECK(tree.node("/dev/nvidia0", true)->open_error == EPERM);
  CHECK(tree.node("/dev/null")->type == NodeType::kFile);
}

TEST_CASE("a folder from elsewhere can stand in a tree") {
  const TemporaryTree folder;
  folder.put("sys/bus/pci/x", "mounted");
  Tree tree("/");
  tree.mount("/sys", folder.path + "/sys");
  CHECK(*tree.read("/sys/bus/pci/x") == "mounted");
  CHECK(tree.read("/sys/../etc/passwd").is_absent());
  CHECK(tree.read("/proc/version"));
}

TEST_CASE("this machine is a tree, too") {
  const Tree tree("/");
  CHECK(tree.is_this_machine());
  CHECK(tree.node("/dev/null", true)->open_error == 0);
  CHECK(tree.node("/dev/null")->major == 1);
  CHECK(!tree.line("/proc/sys/kernel/osrelease")->empty());
}

TEST_CASE("a refused folder makes a list partial, and an absence unknown") {
  const TemporaryTree folder;
  folder.put("etc/a", "1");
  Tree tree(folder.path);
  tree.add_special("/etc/b", {std::nullopt, EACCES});
  const auto both = [&](const char* path, const char* other) {
    return tree.watched([&, path, other] {
      const auto first = tree.line(path);
      static_cast<void>(tree.line(other));
      return first;
    });
  };
  CHECK(both("/etc/a", "/etc/c").is_whole());
  CHECK(both("/etc/c", "/etc/c").is_absent());
  const auto part = both("/etc/a", "/etc/b");
  CHECK(part.has_value());
  CHECK(!part.is_whole());
  CHECK(part.why().where == "/etc/b");
  CHECK(both("/etc/c", "/etc/b").is_unreadable());
  // A value that is computed from a partial value is partial too.
  CHECK(!part.map([](const std::string& text) { return text.size(); }).is_whole());
}

TEST_CASE("without the kernel's own files nothing of the kernel is called absent") {
  const TemporaryTree folder;
  folder.put("etc/os-release", "ID=debian\n");
  folder.folder("proc");  // nothing is mounted on /proc, as in a chroot
  const Tree tree(folder.path);
  CHECK(tree.list("/sys/bus/pci/devices").is_unreadable());
  CHECK(tree.list("/sys/bus/pci/devices").why().where == "/sys");
  CHECK(tree.read("/proc/modules").is_unreadable());
  CHECK(tree.read("/etc/none").is_absent());
  folder.put("sys/class/x", "");
  const Tree mounted(folder.path);
  CHECK(mounted.list("/sys/bus/pci/devices").is_absent());
}
