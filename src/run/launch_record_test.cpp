#include "run/launch_record.hpp"

#include <doctest/doctest.h>

using berth::run::Launch;
using berth::run::launch_in;
using berth::run::record_of;

TEST_CASE("what a job is started with comes back as it was, bytes that are no text too") {
  Launch launch;
  launch.command = {"python3", "train.py", "\xff\xfe", ""};
  launch.environment = {"PATH=/usr/bin", "ODD=\x80\xc3", "EMPTY="};
  launch.folder = "/home/\xff";
  launch.group = "/sys/fs/cgroup/berth/7";
  launch.job_files = "/var/lib/berth/jobs/7";
  launch.cpus = {0, 3};
  launch.mask = 027;
  launch.user = berth::run::Credentials{1000, 1001, {4, 27}};
  const auto back = launch_in(record_of(launch));
  REQUIRE(back);
  CHECK(back->command == launch.command);
  CHECK(back->environment == launch.environment);
  CHECK(back->folder == launch.folder);
  CHECK(back->group == launch.group);
  CHECK(back->job_files == launch.job_files);
  CHECK(back->cpus == launch.cpus);
  CHECK(back->mask == launch.mask);
  REQUIRE(back->user);
  CHECK(back->user->uid == 1000);
  CHECK(back->user->gid == 1001);
  CHECK(back->user->groups == launch.user->groups);
}

TEST_CASE("what is no record is refused") {
  Launch launch;
  launch.command = {"true"};
  const std::string whole = record_of(launch);
  for (const std::string& bad :
       {std::string(), std::string("{}"), std::string("[1]"), whole.substr(0, whole.size() / 2),
        std::string(R"({"command":[],"environment":[],"places":["","",""],"cpus":[],"umask":0,)"
                    R"("uid":0,"gid":0,"groups":[]})"),
        std::string(R"({"command":["true"],"environment":[],"places":[],"cpus":[],"umask":0,)"
                    R"("uid":0,"gid":0,"groups":[]})")}) {
    const auto read = launch_in(bad);
    REQUIRE_FALSE(read);
    CHECK(read.error().id == "E0517");
  }
}
