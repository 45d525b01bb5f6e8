#include "doctor/tree/recorded_machine.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "doctor/read/collect.hpp"
#include "doctor/record/record.hpp"
#include "doctor/tree/tree.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using berth::system::TemporaryTree;

namespace recorded_machine_test {
namespace {

const std::string kHead = "berth recorded machine 1\n";

Tree tree_of(const std::string& text) {
  auto machine = parse_machine(kHead + text, "test.machine");
  REQUIRE(machine);
  Tree tree(std::move(machine->files), "test.machine");
  for (const auto& [path, special] : machine->specials) tree.add_special(path, special);
  return tree;
}

/// The line number in the error; 0 if there is no error.
int wrong_line(const std::string& text) {
  const auto machine = parse_machine(kHead + text, "x.machine");
  if (machine) return 0;
  CHECK(machine.error().id == "E0802");
  const std::string& message = machine.error().message;
  REQUIRE(message.starts_with("x.machine:"));
  return std::stoi(message.substr(10));
}

}  // namespace

TEST_CASE("a recorded machine holds files, links, nodes and parts") {
  const std::string text = kHead + R"(
environment |
  HOME=/home/ada

/lib -> usr/lib
/etc/one = a line
/etc/exact = "no end\x00"
/etc/text |
  first

    indented
/usr/bin/tool [0755]
/usr/lib/
  libcuda.so.1 -> libcuda.so.550
  libcuda.so.550 hex 32
    10: 7f 45
/empty/
/dev/
  nvidia0 char 195:0 0666 0:44 open=EPERM
  kmsg unreadable EACCES
)";
  const auto machine = parse_machine(text, "test.machine");
  REQUIRE(machine);
  CHECK(machine->parts.at("environment") == "HOME=/home/ada\n");
  const Tree tree = tree_of(text.substr(kHead.size()));
  CHECK(*tree.read("/etc/one") == "a line\n");
  CHECK(*tree.read("/etc/exact") == std::string("no end\0", 7));
  CHECK(*tree.read("/etc/text") == "first\n\n  indented\n");
  CHECK(*tree.read_end("/etc/one", 3) == "ne\n");
  CHECK(*tree.resolve("/lib/libcuda.so.1") == "/usr/lib/libcuda.so.550");
  CHECK(*tree.link("/lib") == "usr/lib");
  CHECK(tree.node("/usr/bin/tool")->mode == 0755);
  CHECK(tree.node("/lib/libcuda.so.1")->size == 32);
  CHECK(tree.list("/empty")->empty());
  CHECK(*tree.list("/dev") == std::vector<std::string>{"nvidia0"});
  CHECK(tree.node("/dev/nvidia0", true)->open_error == EPERM);
  CHECK(tree.node("/dev/nvidia0")->gid == 44);
  CHECK(tree.read("/dev/kmsg").why().error_number == EACCES);
  // Device nodes do not create the folder that contains them.
  CHECK(tree.node("/dev").is_absent());
  const auto file = tree.open_file("/usr/lib/libcuda.so.550");
  REQUIRE(file);
  char bytes[2] = {};
  CHECK(file->read_at(16, bytes, 2));
  CHECK(std::string(bytes, 2) ==
        "\x7f"
        "E");
  CHECK(file->read_at(30, bytes, 2));
  CHECK(!file->read_at(31, bytes, 2));
}

TEST_CASE("a machine in memory is walked as the kernel walks a folder") {
  const TemporaryTree folder;
  folder.put("a/file", "text");
  folder.link("a/link", "file");
  folder.link("a/up", "../../../a/./file");
  folder.link("a/loop", "loop");
  folder.link("a/none", "/nothing");
  folder.link("a/slash", "file/");
  folder.link("dir", "/a/");
  const Tree disk(folder.path);
  const Tree memory = tree_of(
      "/a/\n  file = \"text\"\n  link -> file\n  up -> ../../../a/./file\n  loop -> loop\n"
      "  none -> /nothing\n  slash -> file/\n/dir -> /a/\n");
  for (const char* path : {"/a/file",   "/a/link",  "/a/up",    "/a/loop",    "/a/none",
                           "/a/slash",  "/a/link/", "/a/file/", "/a/file/..", "/a/../dir/link",
                           "/dir",      "/dir/",    "/dir/..",  "/",          "/..",
                           "//a//file", "/b",       "/a",       "/a/.",       "/a/file/x",
                           "a/file",    ""}) {
    CAPTURE(path);
    CHECK(disk.read(path).is_absent() == memory.read(path).is_absent());
    CHECK(disk.read(path).value_or("?") == memory.read(path).value_or("?"));
    CHECK(disk.link(path).value_or("?") == memory.link(path).value_or("?"));
    CHECK(disk.resolve(path).value_or("?") == memory.resolve(path).value_or("?"));
    CHECK(disk.exists(path) == memory.exists(path));
    CHECK(disk.list(path).has_value() == memory.list(path).has_value());
    CHECK(disk.open_file(path).has_value() == memory.open_file(path).has_value());
  }
}

TEST_CASE("a machine based on another only lists the differences") {
  const TemporaryTree folder;
  folder.put("base.machine", kHead + R"(expect.json |
  {"healthy": "yes"}
environment |
  A=1
  B=2
kernel.log |
  one
driver.json |
  {"nvml_init": 0, "gpus": [{"ecc": 0, "name": "x"}, {"ecc": 0}]}
/proc/driver/nvidia/version = 1
/proc/modules = nvidia
/usr/local/cuda -> cuda-12
/usr/local/cuda-12/version = 12
/dev/nvidia0 char 195:0 0666 0:0
)");
  folder.put("other.machine", kHead + R"(like = base
environment +
  - A
  B=3
  C=4
kernel.log +
  two
driver.json +
  {"nvml_init": 18, "gpus": {"*": {"ecc": 1}, "1": {"name": "y"}}}
- /proc/driver
- /dev/nvidia0
/proc/modules = nouveau
/usr/local/cuda/version = 13
)");
  const auto machine = read_machine(folder.path + "/other.machine");
  REQUIRE(machine);
  CHECK(machine->parts.at("environment") == "B=3\nC=4\n");
  CHECK(machine->parts.at("kernel.log") == "one\ntwo\n");
  CHECK(machine->parts.at("driver.json") ==
        R"({"gpus":[{"ecc":1,"name":"x"},{"ecc":1,"name":"y"}],"nvml_init":18})");
  CHECK(!machine->parts.contains("expect.json"));
  CHECK(machine->specials.empty());
  CHECK(machine->files.find("/proc/driver").entry == nullptr);
  CHECK(machine->files.find("/proc/modules").entry->content.read(0, 99) == "nouveau\n");
  CHECK(machine->files.find("/usr/local/cuda-12/version").entry->content.read(0, 99) == "13\n");
}

TEST_CASE("a malformed line of a recorded machine is told with its number") {
  CHECK(!parse_machine("", "x.machine"));
  CHECK(!parse_machine("berth recorded machine 2\n", "x.machine"));
  CHECK(wrong_line("") == 0);
  for (const char* line : {"word",
                           "  indented",
                           "/a/../b",
                           "/a/./b",
                           "//a",
                           "/a |x",
                           "/a -> ",
                           "/a hex 4 5",
                           "/a char x:y",
                           "/a unreadable EWHAT",
                           "/a [08] = x",
                           "\"/a",
                           "\"/a\\x00\"",
                           "/a = \"b",
                           "like = ../base",
                           "like = /etc/passwd",
                           "like = ",
                           "- a",
                           "/a//b",
                           "/a = \"\\xzz\""}) {
    CAPTURE(line);
    CHECK(wrong_line("\n" + std::string(line) + "\n") == 3);
  }
  CHECK(wrong_line("/a = 1\n/a = 2\n") == 3);
  CHECK(wrong_line("/a = 1\n/a/b = 2\n") == 3);
  CHECK(wrong_line("/a/b\n/a = 1\n") == 3);
  CHECK(wrong_line("/l -> l\n/l/x\n") == 3);
  CHECK(wrong_line("/a hex 2\n  0: 01 02 03\n") != 0);
  CHECK(wrong_line("/a hex 99999999999999999\n") == 2);
  CHECK(wrong_line("/a\nlike = base\n") == 3);
  CHECK(wrong_line("driver.json |\n  " + std::string(100, '[') + "\n") != 0);
  CHECK(wrong_line(std::string("/a = \0\n", 7)) == 2);
}

TEST_CASE("machines based on each other are an error") {
  const TemporaryTree folder;
  folder.put("a.machine", kHead + "like = b\n");
  folder.put("b.machine", kHead + "like = a\n");
  const auto machine = read_machine(folder.path + "/a.machine");
  REQUIRE(!machine);
  CHECK(machine.error().id == "E0802");
}

TEST_CASE("a hostile size takes no memory") {
  const Tree tree = tree_of("/big base64 999999999999999\n  0: f0VM\n");
  CHECK(tree.node("/big")->size == 999999999999999);
  CHECK(tree.read("/big", 4)->size() == 4);
  char last = 'x';
  CHECK(tree.open_file("/big")->read_at(999999999999998, &last, 1));
  CHECK(last == '\0');
}

TEST_CASE("a written machine is read back unchanged") {
  const std::string text = kHead + R"(
environment |
  A=1

/
  .dockerenv
  lib -> usr/lib
"/a b/c" = " blanks "
/bin/x [0755]
/big base64 100000
  12c0: f0VM
/empty/
/etc/
  blank |-

    a

    b
  ends |
    x
    
  nul = "\x00"
/dev/
  a char 1:2 0660 3:4
  b unreadable EIO
/run/f file 0644 0:0 empty changed=17
)";
  const auto machine = parse_machine(text, "test.machine");
  REQUIRE(machine);
  const std::string written = machine_to_text(*machine);
  const auto again = parse_machine(written, "test.machine");
  REQUIRE(again);
  CHECK(machine_to_text(*again) == written);
  CHECK(again->files.find("/etc/ends").entry->content.read(0, 99) == "x\n\n");
  CHECK(again->files.find("/etc/blank").entry->content.read(0, 99) == "\na\n\nb");
  CHECK(again->files.find("/a b/c").entry->content.read(0, 99) == " blanks ");
  CHECK(again->files.find("/empty").entry != nullptr);
  CHECK(again->specials.at("/run/f").node->changed == 17);
}

TEST_CASE("a machine is recorded into one new file") {
  const TemporaryTree folder;
  folder.put("m.machine",
             kHead +
                 "environment |\n  HOME=/home/ada\n/proc/modules = ext4 1 0 - Live 0x0\n"
                 "/dev/nvidia0 char 195:0 0666 0:0\n");
  auto sources = from_bundle(folder.path + "/m.machine");
  REQUIRE(sources);
  const std::string path = folder.path + "/again.machine";
  REQUIRE(record(*sources, path));
  const auto again = read_machine(path);
  REQUIRE(again);
  CHECK(again->files.find("/proc/modules").entry != nullptr);
  CHECK(again->specials.contains("/dev/nvidia0"));
  CHECK(again->parts.contains("redacted.txt"));
  // record() does not overwrite an existing file.
  const auto twice = record(*sources, path);
  REQUIRE(!twice);
  CHECK(twice.error().id == "E0804");
}

}  // namespace recorded_machine_test
