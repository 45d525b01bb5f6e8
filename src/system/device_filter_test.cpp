// Tests the instructions against a table. As root with cgroup v2, also tests them with the kernel's
// verifier and by opening real nodes.
#include "system/device_filter.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "system/control_group.hpp"
#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::system;
using model::NodeRule;

namespace {

/// A group for tests; nullopt, with a message, if none can be created.
struct TestGroup {
  std::optional<ControlGroup> group;

  TestGroup() {
    const auto mount = ::geteuid() == 0 ? unified_mount("/proc") : std::nullopt;
    if (!mount) {
      MESSAGE("skipped: not root, or no cgroup v2 here");
      return;
    }
    group.emplace(group_of("/proc", *mount, "self") + "/berth-test-" + std::to_string(::getpid()));
    if (group->make()) return;
    MESSAGE("skipped: no control group can be made here");
    group.reset();
  }
  ~TestGroup() {
    if (!group) return;
    group->kill();
    for (int i = 0; i < 200 && !group->remove(); ++i) ::usleep(10'000);
  }
  TestGroup(const TestGroup&) = delete;
  TestGroup& operator=(const TestGroup&) = delete;
};

/// errno of opening the node from inside the group; 0 if it could be opened.
int opened_in(const ControlGroup& group, const std::string& node, uid_t as = 0) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!group.enter(0) || (as != 0 && ::setuid(as) != 0)) ::_exit(255);
    ::_exit(::open(node.c_str(), O_RDWR) >= 0 ? 0 : errno);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

std::string node(const TemporaryTree& tree, unsigned major, unsigned minor) {
  const std::string path = tree.path + "/" + std::to_string(major) + "." + std::to_string(minor);
  REQUIRE(::mknod(path.c_str(), S_IFCHR | 0666, ::makedev(major, minor)) == 0);
  ::chmod(path.c_str(), 0666);
  ::chmod(tree.path.c_str(), 0755);
  return path;
}

}  // namespace

TEST_CASE("rules become instructions") {
  // Without rules, the program only tests whether the node is a character device, and allows access
  // in both cases.
  CHECK(filter_program({}).size() == 10);
  const auto with = [](std::size_t rules, bool minor, bool allow) {
    return filter_program(
               std::vector<NodeRule>(rules, {allow, 195, minor ? std::optional(0U) : std::nullopt}))
        .size();
  };
  CHECK(with(1, false, true) == 10 + 4);
  CHECK(with(1, true, true) == 10 + 6);
  CHECK(with(1, true, false) == 10 + 6 + 2);  // the two instructions of a refusal exist only once
  CHECK(with(50, true, false) == 10 + 300 + 2);
  CHECK(filter_program({{false, 195}}, {}, 5).size() == 10 + 4 + 11);
  CHECK(filter_program({{false, 195}}, {{1000, 1001}, {4}}).size() == 10 + 4 + 2 + 4 + 3 * 4);
  // Uids above 2^31 also work.
  const auto last = filter_program({}, {{0xfffffff0U}, {}})[5];
  CHECK((last >> 32U) == 0xfffffff0U);
}

TEST_CASE("the kernel takes the programs that rules become") {
  const TestGroup test;
  if (!test.group) return;
  std::vector<NodeRule> many;
  for (std::uint32_t i = 0; i < 300; ++i) many.push_back({i % 2 == 0, 195, i});
  const std::vector<std::vector<NodeRule>> lists{
      {}, {{true, 195, 3}}, {{false, 195}}, {{true, 195, 3}, {false, 195}}, many};
  for (const auto& rules : lists)
    for (const model::Exempt& exempt : {model::Exempt{}, model::Exempt{{0, 4'000'000'000}, {7}}}) {
      const auto filter = DeviceFilter::load(rules, exempt, "berth_test");
      CHECK((filter ? "" : filter.error().message) == "");
    }
}

TEST_CASE("a node that the filter denies cannot be opened from the group") {
  const TestGroup test;
  if (!test.group) return;
  const TemporaryTree tree;
  const std::string mine = node(tree, 195, 240), other = node(tree, 195, 241),
                    full = node(tree, 1, 7);
  const auto filter =
      DeviceFilter::load({{true, 195, 240}, {false, 195}}, {{65534}, {}}, "berth_test");
  REQUIRE(filter);
  CHECK(opened_in(*test.group, other) != EPERM);
  REQUIRE(filter->hold(test.group->folder()));
  CHECK(opened_in(*test.group, other) == EPERM);
  CHECK(filter->refusals() == 1);
  CHECK(opened_in(*test.group, mine) != EPERM);
  CHECK(opened_in(*test.group, full) == 0);
  CHECK(opened_in(*test.group, other, 65534) != EPERM);  // uid 65534 is exempt
  CHECK(filter->refusals() == 1);
}

TEST_CASE("a filter is kept, replaced and removed, and foreign filters stay") {
  const TestGroup test;
  if (!test.group) return;
  const TemporaryTree tree;
  const std::string path = node(tree, 195, 240), full = node(tree, 1, 7);
  const std::string& folder = test.group->folder();
  const auto theirs = DeviceFilter::load({{false, 1, 7}}, {}, "somebody");
  const auto first = DeviceFilter::load({{false, 195}}, {}, "berth_test");
  const auto second = DeviceFilter::load({{false, 195, 1}}, {}, "berth_test");
  REQUIRE((theirs && first && second));
  REQUIRE(theirs->hold(folder));
  const auto held = [&](const DeviceFilter& filter) {
    const auto had_to = filter.hold(folder);
    REQUIRE(had_to);
    return *had_to;
  };
  CHECK(held(*first));
  CHECK(!held(*first));
  CHECK(opened_in(*test.group, path) == EPERM);
  // hold() below attaches the removed filter again
  CHECK(remove_filters(folder, "berth_test") == 1);
  CHECK(opened_in(*test.group, path) != EPERM);
  CHECK(held(*first));
  CHECK(held(*second));
  CHECK(!held(*second));
  CHECK(opened_in(*test.group, path) != EPERM);  // hold() has removed the first filter
  CHECK(opened_in(*test.group, full) == EPERM);
  CHECK(remove_filters(folder, "berth_test") == 1);
  CHECK(remove_filters(folder, "berth_test") == 0);
  CHECK(opened_in(*test.group, full) == EPERM);
}

TEST_CASE("killing a group ends all its processes, whatever they forked") {
  const TestGroup test;
  if (!test.group) return;
  const pid_t child = ::fork();
  if (child == 0) {
    if (!test.group->enter(0)) ::_exit(1);
    if (::fork() == 0) {
      ::setsid();
      if (::fork() == 0) ::pause();
      ::_exit(0);
    }
    ::pause();
  }
  for (int i = 0; i < 500 && test.group->processes().size() < 2; ++i) ::usleep(10'000);
  CHECK(!test.group->is_empty());
  CHECK(!test.group->remove());
  test.group->kill();
  ::waitpid(child, nullptr, 0);
  for (int i = 0; i < 500 && !test.group->is_empty(); ++i) ::usleep(10'000);
  CHECK(test.group->processes().empty());
  CHECK(test.group->remove());
  CHECK(!test.group->is_there());
}
