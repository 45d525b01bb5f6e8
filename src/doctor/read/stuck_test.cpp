#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "doctor/read/collectors.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/ground_for_tests.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using berth::system::TemporaryTree;

namespace stuck_test {
namespace {

/// A machine on which the driver is loaded.
Tree tree_of(const TemporaryTree& folder) {
  Tree tree(folder.path);
  Node node;
  node.type = NodeType::kCharacter;
  tree.add_special("/dev/nvidiactl", {node, 0});
  return tree;
}

void open_file(const TemporaryTree& folder, const std::string& at, const char* target) {
  const std::filesystem::path path = folder.path + "/" + at;
  std::filesystem::create_directories(path.parent_path());
  std::filesystem::create_symlink(target, path);
}

std::size_t found(const Facts& facts) {
  return diagnose(facts, Knowledge{}, {"RT01"}).findings.size();
}

}  // namespace

TEST_CASE("stuck processes are found with the devices they hold, whatever their names") {
  const TemporaryTree folder;
  folder.put("proc/1/stat", "1 (systemd) S 0 1\n");
  folder.put("proc/77/stat", "77 (kworker/u8:3) D 2 0\n");  // a kernel thread
  folder.put("proc/90/stat", "90 (a) D (b) R 1 90\n");      // running
  folder.put("proc/91/stat", "91 (a) b) D 1 91\n");
  open_file(folder, "proc/91/fd/3", "/dev/nvidiactl");
  open_file(folder, "proc/91/fd/4", "/dev/nvidia1");
  folder.put("proc/92/stat", "92 (train) Z 91 91\n");
  folder.put("proc/92/task/92/stat", "92 (train) Z 91 91\n");
  open_file(folder, "proc/92/task/93/fd/9", "/dev/nvidia0");
  folder.put("proc/94/stat", "94");
  folder.put("proc/95/stat", "");
  const auto stuck = collect_stuck(tree_of(folder));
  REQUIRE(stuck);
  REQUIRE(stuck->size() == 2);
  CHECK((*stuck)[0].name == "a) b");
  CHECK((*stuck)[0].node == "/dev/nvidia1");
  CHECK((*stuck)[1].state == 'Z');
  CHECK((*stuck)[1].parent == 91);
  CHECK((*stuck)[1].node == "/dev/nvidia0");
}

TEST_CASE("without the driver no process is stuck in it") {
  const TemporaryTree folder;
  folder.put("proc/91/stat", "91 (a) D 1 91\n");
  CHECK(collect_stuck(Tree(folder.path)).is_absent());
}

TEST_CASE("if a process's open files may not be read, what it holds is unknown") {
  const TemporaryTree folder;
  folder.put("proc/91/stat", "91 (a) D 1 91\n");
  Tree tree = tree_of(folder);
  tree.add_special("/proc/91/fd", {std::nullopt, EACCES});
  const auto stuck = collect_stuck(tree);
  REQUIRE(stuck);
  CHECK(stuck->front().unknown);
}

TEST_CASE("links to open files are read on a real machine as well") {
  const Tree tree("/");
  const std::string own = "/proc/" + std::to_string(::getpid()) + "/fd";
  const auto files = tree.list(own);
  REQUIRE(files);
  bool any = false;
  for (const std::string& file : *files) any = any || tree.link(own + "/" + file).has_value();
  CHECK(any);
}

TEST_CASE("a process that cannot be killed and holds a GPU is named, a short wait is not") {
  Facts facts = healthy();
  facts.machine.stuck = std::vector<StuckProcess>{{91, 1, 'D', "train", "/dev/nvidia0", false}};
  CHECK(found(facts) == 0);
  berth::doctor::log(facts, "INFO: task train:91 blocked for more than 120 seconds.");
  CHECK(found(facts) == 1);
  facts.machine.stuck = std::vector<StuckProcess>{{92, 91, 'Z', "train", "/dev/nvidia0", false},
                                                  {93, 91, 'Z', "sh", "", false}};
  CHECK(found(facts) == 1);
  facts.machine.stuck = Unreadable{"/proc", EACCES};
  CHECK(found(facts) == 0);
  CHECK(diagnose(facts, Knowledge{}, {"RT01"}).not_checked.size() == 1);
}

TEST_CASE("memory without an owner names the stuck processes, because they may have it") {
  Facts facts = healthy();
  first_answer(facts, [](GpuAnswer& gpu) {
    gpu.memory_used_bytes = 20ULL << 30;
    gpu.processes_memory_bytes = 0;
  });
  facts.machine.stuck =
      std::vector<StuckProcess>{{91, 1, 'D', "train", "", true}, {92, 1, 'D', "cp", "", false}};
  const auto findings = diagnose(facts, Knowledge{}, {"RT01"}).findings;
  REQUIRE(findings.size() == 1);
  std::string all;
  for (const std::string& line : findings.front().evidence) all += line + "\n";
  CHECK(all.find("91 (train)") != std::string::npos);
  CHECK(all.find("92 (cp)") == std::string::npos);
}

}  // namespace stuck_test
