#include "system/cgroup.hpp"

#include <doctest/doctest.h>

using namespace berth::system;

TEST_CASE("cgroup mounts are found among others, with escaped points") {
  const auto mounts = parse_cgroup_mounts(
      "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
      "32 31 0:29 /docker/ab /sys/fs/cgroup/cpu,cpuacct rw master:10 - cgroup cgroup "
      "rw,cpu,cpuacct\n"
      "41 31 0:38 / /mnt/a\\040b rw - cgroup2 cgroup2 rw\n"
      "garbage - cgroup\n");
  REQUIRE(mounts.size() == 2);
  CHECK(!mounts[0].v2);
  CHECK(mounts[0].root == "/docker/ab");
  CHECK(mounts[0].controllers == std::vector<std::string>{"rw", "cpu", "cpuacct"});
  CHECK(mounts[1].v2);
  CHECK(mounts[1].point == "/mnt/a b");
}

TEST_CASE("cgroup memberships of v1, v2 and named hierarchies") {
  const auto groups =
      parse_cgroup("4:memory:/a:b\n1:name=systemd:/x\n0::/y\nnonsense\n2:cpu:nopath\n");
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].path == "/a:b");
  CHECK(groups[1].controllers == std::vector<std::string>{"name=systemd"});
  CHECK(groups[2].v2);
  CHECK(groups[2].path == "/y");
}

TEST_CASE("a group and its ancestors, as far as the mount shows them") {
  using Folders = std::vector<std::string>;
  CgroupMount mount{true, "/", "/sys/fs/cgroup", {}};
  CHECK(group_folders(mount, "/a/b") ==
        Folders{"/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"});
  CHECK(group_folders(mount, "/") == Folders{"/sys/fs/cgroup"});
  mount.root = "/docker/ab";
  CHECK(group_folders(mount, "/docker/ab/w") == Folders{"/sys/fs/cgroup/w", "/sys/fs/cgroup"});
  CHECK(group_folders(mount, "/docker/abc") == Folders{"/sys/fs/cgroup"});
  CHECK(group_folders(mount, "/") == Folders{"/sys/fs/cgroup"});
  mount.root = "/";
  CHECK(group_folders(mount, "/../../etc") == Folders{"/sys/fs/cgroup"});
}

TEST_CASE("quotas in cores") {
  CHECK(parse_cpu_max("150000 100000\n") == 1.5);
  CHECK(!parse_cpu_max("max 100000\n"));
  CHECK(!parse_cpu_max("1 0"));
  CHECK(!parse_cpu_max(""));
  CHECK(!quota_from(-1, 100000));
  CHECK(quota_from(50000, 100000) == 0.5);
}

TEST_CASE("memory limits that mean unlimited") {
  constexpr std::uint64_t kMachine = 1ULL << 36;
  CHECK(parse_memory_limit("4294967296\n", kMachine) == 4294967296);
  CHECK(!parse_memory_limit("max\n", kMachine));
  CHECK(!parse_memory_limit("9223372036854771712\n", kMachine));
  CHECK(!parse_memory_limit("9223372036854771712\n", 0));
  CHECK(!parse_memory_limit("-1\n", kMachine));
  CHECK(!parse_memory_limit("99999999999999999999\n", kMachine));
}

TEST_CASE("values of stat files") {
  CHECK(stat_value("a 1\ninactive_file 7\n", "inactive_file") == 7);
  CHECK(stat_value("MemTotal:       16 kB\n", "MemTotal") == 16384);
  CHECK(!stat_value("MemTotalX: 16 kB\n", "MemTotal"));
  CHECK(!stat_value("MemTotal: 9223372036854775807 kB\n", "MemTotal"));
  CHECK(!stat_value("", "x"));
}
