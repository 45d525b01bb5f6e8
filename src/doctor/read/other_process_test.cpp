#include "doctor/read/other_process.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>

#include "doctor/read/process.hpp"
#include "doctor/tree/tree.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using berth::system::TemporaryTree;

TEST_CASE("our own process is read like any other") {
  const auto found = other_process(::getpid());
  REQUIRE(found);
  CHECK(found->facts.identity->uid == ::geteuid());
  CHECK(found->facts.environment->contains("PATH"));
  CHECK(found->program.find("test_doctor") != std::string::npos);
  CHECK(!found->facts.cpus->empty());
  CHECK(found->facts.open_files_limit.has_value());
}

TEST_CASE("a missing process is an error, and another user's is partly unreadable") {
  const berth::system::TemporaryTree folder;
  CHECK(other_process(4711, folder.path).error().id == "E0805");
  folder.put("4711/status",
             "Name:\tx\nUid:\t0\t1000\t0\t0\nGid:\t0\t1001\t0\t0\nGroups:\t44 109 \n");
  const auto found = other_process(4711, folder.path);
  REQUIRE(found);
  CHECK(found->facts.identity->uid == 1000);
  CHECK(found->facts.identity->groups == std::vector<gid_t>{44, 109});
  CHECK(found->facts.environment.is_unreadable());
  CHECK(found->facts.open_files_limit.is_unreadable());
  CHECK(found->program.empty());
}

TEST_CASE("the narrowest group around a process limits how many it may start") {
  const berth::system::TemporaryTree folder;
  const std::string groups = folder.path + "/cgroup";
  folder.put("7/mountinfo", "30 23 0:26 / " + groups + " rw - cgroup2 cgroup2 rw\n");
  folder.put("7/cgroup", "0::/user/job\n");
  folder.put("cgroup/user/job/pids.max", "max\n");
  folder.put("cgroup/user/pids.max", "100\n");
  folder.put("cgroup/user/pids.current", "60\n");
  ProcessFacts facts;
  read_processes_limit(folder.path + "/7", folder.path + "/7", facts);
  CHECK(facts.cgroup_processes_limit.value_or(0) == 40);
  folder.put("cgroup/user/pids.max", "max\n");
  facts = {};
  read_processes_limit(folder.path + "/7", folder.path + "/7", facts);
  CHECK(facts.cgroup_processes_limit.is_absent());
  // If no cgroup is visible, it is unknown whether a cgroup limits the number of processes.
  folder.put("7/mountinfo", "");
  read_processes_limit(folder.path + "/7", folder.path + "/7", facts);
  CHECK(facts.cgroup_processes_limit.is_unreadable());
}

TEST_CASE("a cgroup v1 hierarchy counts, too") {
  const berth::system::TemporaryTree folder;
  folder.put("7/mountinfo", "30 23 0:26 / " + folder.path + "/pids rw - cgroup cgroup rw,pids\n");
  folder.put("7/cgroup", "4:cpu:/other\n3:pids:/job\n");
  folder.put("pids/job/pids.max", "512\n");
  ProcessFacts facts;
  read_processes_limit(folder.path + "/7", folder.path + "/7", facts);
  CHECK(facts.cgroup_processes_limit.value_or(0) == 512);
}

TEST_CASE("another process's quota, shared memory and space are its own") {
  const TemporaryTree folder;
  folder.put("proc/self/mountinfo", "30 20 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  folder.put("proc/7/cgroup", "0::/box\n");
  folder.put("sys/fs/cgroup/box/cpu.max", "250000 100000\n");
  folder.put("sys/fs/cgroup/box/pids.max", "100\n");
  folder.put("sys/fs/cgroup/box/pids.current", "40\n");
  folder.put("proc/7/status",
             "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nGid:\t1\t1\t1\t1\nGroups:\t\n");
  folder.put("proc/7/environ", "HOME=/home/ada" + std::string(1, '\0'));
  folder.put("box/home/ada/x", "");
  folder.put("box/dev/shm/x", "");
  folder.link("proc/7/root", folder.path + "/box");
  const auto facts = other_process(7, folder.path + "/proc")->facts;
  CHECK(facts.quota_cores.value_or(0) == 2.5);
  CHECK(facts.shm_total_bytes.value_or(0) > 0);
  REQUIRE(facts.disk_space);
  for (const DiskSpace& space : *facts.disk_space)
    CHECK(space.path.find(folder.path) == std::string::npos);
  const TemporaryTree closed;
  closed.put("proc/7/status", "Name:\tx\nUid:\t1000\t1000\t1000\t1000\n");
  const auto none = other_process(7, closed.path + "/proc")->facts;
  CHECK(none.quota_cores.is_unreadable());
  CHECK(none.disk_space.is_unreadable());
}

TEST_CASE("our own process seen from outside is as it is from inside") {
  const auto outside = other_process(::getpid())->facts;
  const auto inside = own_process(Tree("/"));
  CHECK(outside.quota_cores.value_or(0) == inside.quota_cores.value_or(0));
  CHECK(outside.shm_total_bytes.value_or(0) == inside.shm_total_bytes.value_or(0));
  REQUIRE(outside.disk_space);
  REQUIRE(inside.disk_space);
  CHECK(outside.disk_space->size() == inside.disk_space->size());
}

TEST_CASE("soft limits are used, and unlimited means no limit") {
  ProcessFacts facts;
  limits_from(
      "Limit  Soft Limit  Hard Limit  Units\nMax locked memory  65536  unlimited  bytes\n"
      "Max stack size  unlimited  unlimited  bytes\nMax open files  x  y  files\n",
      facts);
  CHECK(facts.memlock_limit_bytes.value_or(0) == 65536);
  CHECK(facts.stack_limit_bytes.is_absent());
  CHECK(facts.open_files_limit.is_unreadable());
  CHECK(facts.processes_limit.is_unreadable());
}

namespace {

/// The result for a process that was started under the path `first`. Its root contains a virtual
/// environment.
std::string program_of(const std::string& first, const std::string& maps = "") {
  const TemporaryTree folder;
  folder.put("root/usr/bin/python3.11", "");
  folder.put("root/home/ada/venv/pyvenv.cfg", "home = /usr/bin\n");
  folder.link("root/home/ada/venv/bin/python", "/usr/bin/python3.11");
  folder.put("7/status", "Name:\tx\n");
  folder.put("7/cmdline", first + std::string(1, '\0') + "train.py");
  folder.put("7/environ", "PATH=/nowhere:/home/ada/venv/bin:/usr/bin" + std::string(1, '\0'));
  folder.put("7/maps", maps);
  folder.link("7/root", folder.path + "/root");
  folder.link("7/exe", "/usr/bin/python3.11");
  folder.link("7/cwd", "/home/ada");
  return other_process(7, folder.path)->program;
}

}  // namespace

TEST_CASE("a process's Python is the path it was started with, not the target of the link") {
  CHECK(program_of("/home/ada/venv/bin/python") == "/home/ada/venv/bin/python");
  CHECK(program_of("venv/bin/python") == "/home/ada/venv/bin/python");
  CHECK(program_of("./venv/bin/python") == "/home/ada/./venv/bin/python");
  CHECK(program_of("python") == "/home/ada/venv/bin/python");
}

TEST_CASE("if a process title hides its arguments, loaded files and the executable still count") {
  CHECK(program_of("ray::train") == "/usr/bin/python3.11");
  CHECK(program_of("/usr/bin/something") == "/usr/bin/python3.11");
  CHECK(program_of("VLLM::EngineCore",
                   "7f0000-7f1000 r-xp 00000000 08:01 42  "
                   "/home/ada/venv/lib/python3.11/site-packages/torch/lib/libc10.so\n") ==
        "/home/ada/venv/bin/python");
}

TEST_CASE("processes that see the same files as we do are distinguished from others") {
  CHECK(other_process(::getpid())->same_files);
  const TemporaryTree folder;
  folder.put("7/status", "Name:\tx\n");
  folder.link("7/root", folder.path);
  folder.link("7/ns/mnt", "mnt:[1]");
  folder.link("self/ns/mnt", "mnt:[1]");
  folder.link("self/root", folder.path);
  CHECK(other_process(7, folder.path)->same_files);
  const TemporaryTree other;
  other.put("7/status", "Name:\tx\n");
  other.link("7/root", folder.path);
  other.link("7/ns/mnt", "mnt:[2]");
  other.link("self/ns/mnt", "mnt:[1]");
  other.link("self/root", folder.path);
  CHECK_FALSE(other_process(7, other.path)->same_files);
}

TEST_CASE("users with a local account, and users who may have one elsewhere") {
  const std::string passwd = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n";
  CHECK(account_in(passwd, "", 1000).value_or(false));
  const auto none = account_in(passwd, "passwd:         files systemd\n", 1042);
  REQUIRE(none);
  CHECK(!*none);
  CHECK(account_in(passwd, "passwd: files sss\n", 1042).is_unreadable());
  CHECK(account_in(passwd, "passwd:\tfiles\tldap\n", 1042).is_unreadable());
  CHECK(!account_in(passwd, "passwd: files [NOTFOUND=return] # sss\n", 1042).value_or(true));
}

TEST_CASE("disk space is that of the nearest existing folder, each reported once") {
  const berth::system::TemporaryTree folder;
  const auto spaces = *disk_space_of(
      Tree("/"),
      {{"TMPDIR", folder.path}, {"HF_HOME", folder.path + "/not/there"}, {"HOME", "relative"}}, 0);
  const auto own = [&](const DiskSpace& space) { return space.path == folder.path; };
  REQUIRE(std::count_if(spaces.begin(), spaces.end(), own) == 1);
  const DiskSpace& space = *std::find_if(spaces.begin(), spaces.end(), own);
  CHECK(space.what == "TMPDIR");
  CHECK(space.free_bytes > 0);
  for (const DiskSpace& one : spaces) CHECK(one.path.starts_with('/'));
}
