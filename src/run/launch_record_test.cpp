#include "run/launch_record.hpp"

#include <doctest/doctest.h>

using berth::run::Launch;
using berth::run::launch_in;
using berth::run::record_of;

TEST_CASE("a launch record is read back unchanged, including bytes that are not UTF-8") {
  Launch launch;
  launch.command = {"python3", "train.py", "\xff\xfe", ""};
  launch.environment = {"PATH=/usr/bin", "ODD=\x80\xc3", "EMPTY="};
  launch.folder = "/home/\xff";
  launch.group = "/sys/fs/cgroup/berth/7";
  launch.job_files = "/var/lib/berth/jobs/7";
  launch.cpus = {0, 3};
  launch.mask = 027;
  launch.user = berth::run::Credentials{1000, 1001, {4, 27}};
  launch.limits = {
      {{7, 500, berth::model::kNoLimit}, {9, 1, 2}}, -5, 300, {1, 2}, 0x200, 0x1000, true};
  launch.grace = std::chrono::seconds(30);
  launch.on_end = "date >> ended";
  launch.checkpoint = {10, std::chrono::seconds(60), true};
  launch.name = "sweep";
  launch.reasons = {"GPU 0: free"};
  launch.settings = {{berth::model::Setting::Action::kKeep, "OMP_NUM_THREADS", "2", "because"}};
  const auto back = launch_in(record_of(launch));
  REQUIRE(back);
  CHECK(back->name == "sweep");
  CHECK(back->reasons == launch.reasons);
  REQUIRE(back->settings.size() == 1);
  CHECK(back->settings[0].action == berth::model::Setting::Action::kKeep);
  CHECK(back->settings[0].name == "OMP_NUM_THREADS");
  CHECK(back->settings[0].value == "2");
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
  REQUIRE(back->limits.resources.size() == 2);
  CHECK(back->limits.resources[0].resource == 7);
  CHECK(back->limits.resources[0].soft == 500);
  CHECK(back->limits.resources[0].hard == berth::model::kNoLimit);
  CHECK(back->limits.resources[1].hard == 2);
  CHECK(back->limits.nice == -5);
  CHECK(back->limits.oom_score_adj == 300);
  CHECK(back->limits.cpus == std::vector{1, 2});
  CHECK(back->limits.blocked == 0x200);
  CHECK(back->limits.ignored == 0x1000);
  CHECK(back->limits.no_new_privileges);
  CHECK(back->grace == launch.grace);
  CHECK(back->on_end == launch.on_end);
  CHECK(back->checkpoint.signal == 10);
  CHECK(back->checkpoint.before == std::chrono::seconds(60));
}

namespace {

/// "," stands for the end of a word.
std::string bytes(std::string words) {
  for (char& c : words)
    if (c == ',') c = '\0';
  return words;
}

}  // namespace

TEST_CASE("records of older versions are read: without limits, and with limits only") {
  const auto oldest = launch_in(bytes("1,true,0,,,,0,63,0,0,0,"));
  REQUIRE(oldest);
  CHECK(oldest->limits.resources.empty());
  CHECK_FALSE(oldest->limits.nice);
  const auto older = launch_in(bytes("1,true,0,,,,0,63,0,0,0,1,7,500,1000,1,3,"));
  REQUIRE(older);
  CHECK(older->limits.resources.size() == 1);
  CHECK(older->limits.nice == 3);
  CHECK_FALSE(older->limits.oom_score_adj);
  CHECK(older->grace == std::chrono::seconds(10));
}

TEST_CASE("truncated or changed records are refused") {
  Launch launch;
  launch.command = {"true"};
  launch.environment = {"A=b"};
  launch.user = berth::run::Credentials{1, 2, {3}};
  const std::string whole = record_of(launch);
  int accepted = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto cut = launch_in(whole.substr(0, size));
    if (cut)
      ++accepted;
    else
      CHECK(cut.error().id == "E0517");
  }
  CHECK(accepted == 3);  // the three lengths at which records of older versions ended
  CHECK_FALSE(launch_in(whole + '\0'));
  for (const char* bad :
       {"0,0,,,,0,63,0,0,0,", "1,true,-1,,,,0,63,0,0,0,", "1,true,9999999999,,,,0,63,0,0,0,",
        "1,true,4000000000,,,,0,63,0,0,0,", "1,true,0,,,,0,63,-5,0,0,", "1,true,x,,,,0,63,0,0,0,",
        "1,true,0,,,,1,5000000000,63,0,0,0,", "{}", "[1],"})
    CHECK_FALSE(launch_in(bytes(bad)));
}
