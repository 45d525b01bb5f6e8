#include "system/process.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <test_paths.hpp>

#include <algorithm>

using namespace berth;
using namespace berth::system;

namespace {
Roots recorded(const std::string& machine) {
  const std::string root = std::string(BERTH_TEST_MACHINES) + "/" + machine;
  return {root + "/proc", root + "/sys", root + "/dev", root + "/etc", root + "/proc"};
}
}  // namespace

TEST_CASE("a recorded process is read in all its parts") {
  ProcessReader reader(recorded("processes-host"));
  model::DeviceProcess process;
  REQUIRE(reader.fill(process, 4121));
  CHECK(process.uid == 1000);
  CHECK(process.user == "lin");
  CHECK(process.state == "S");
  CHECK(process.start_ticks == 9000000);
  CHECK(*process.age_seconds == doctest::Approx(10000));
  CHECK(*process.cpu_percent == doctest::Approx(0.75));
  CHECK(*process.rss_bytes == 800000ULL * 1024);
  CHECK(process.command == "python train.py --lr 1e-3");
  CHECK(process.container.starts_with("docker 3f2a9c81"));
  CHECK(process.unit.empty());
}

TEST_CASE("a process with a hostile name is still one row of text") {
  ProcessReader reader(recorded("processes-host"));
  model::DeviceProcess process;
  REQUIRE(reader.fill(process, 4188));
  CHECK(process.state == "R");
  CHECK(process.user == "1044");
  CHECK(process.command == "/usr/bin/python3 \xEF\xBF\xBD\xEF\xBF\xBD[31m.py");
  CHECK(process.unit == "slurm job 4242");
}

TEST_CASE("the arguments of a process that is stuck in the kernel are not read") {
  ProcessReader reader(recorded("processes-host"));
  model::DeviceProcess process;
  REQUIRE(reader.fill(process, 6000));
  CHECK(process.state == "D");
  CHECK(process.command == "[python]");
  CHECK(process.unit == "session-3.scope");
}

TEST_CASE("a zombie has a name and no memory of its own") {
  ProcessReader reader(recorded("processes-host"));
  model::DeviceProcess process;
  REQUIRE(reader.fill(process, 6100));
  CHECK(process.state == "Z");
  CHECK(process.command == "[defunct]");
  CHECK(!process.rss_bytes);
}

TEST_CASE("a missing process is not filled in") {
  ProcessReader reader(recorded("processes-host"));
  model::DeviceProcess process;
  CHECK(!reader.fill(process, 4122));
  CHECK(!reader.fill(process, 0));
  CHECK(!reader.fill(process, -1));
  CHECK(!reader.fill(process, 4122, Depth::kUser));
  ProcessReader nowhere(
      {"/nonexistent", "/nonexistent", "/nonexistent", "/nonexistent", "/nonexistent"});
  CHECK(!nowhere.fill(process, 1));
  CHECK(list_pids("/nonexistent").empty());
}

TEST_CASE("asked for the user only, nothing else is read") {
  ProcessReader reader(recorded("processes-host"));
  model::DeviceProcess process;
  REQUIRE(reader.fill(process, 4121, Depth::kUser));
  CHECK(process.user == "lin");
  CHECK(process.command.empty());
  CHECK(!process.age_seconds);
  CHECK(process.age_seconds.why == model::Absence::kNotAsked);
}

TEST_CASE("our own process is read from the real kernel as it is") {
  ProcessReader reader(Roots{});
  model::DeviceProcess all, user;
  REQUIRE(reader.fill(all, ::getpid()));
  REQUIRE(reader.fill(user, ::getpid(), Depth::kUser));
  CHECK(all.uid == ::geteuid());
  CHECK(user.uid == ::geteuid());
  CHECK(all.user == user.user);
  CHECK(!all.user.empty());
  CHECK(all.state == "R");
  CHECK(*all.rss_bytes > 100'000);
  CHECK(*all.age_seconds >= 0);
  CHECK(*all.age_seconds < 600);
  CHECK(all.command.find("test_system") != std::string::npos);
  const auto pids = list_pids("/proc");
  CHECK(std::binary_search(pids.begin(), pids.end(), ::getpid()));
}

TEST_CASE("a real zombie is shown as one") {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  ProcessReader reader(Roots{});
  model::DeviceProcess process;
  REQUIRE(reader.fill(process, child));
  CHECK(process.state == "Z");
  CHECK(process.command.starts_with("["));
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("a user without a name is shown by number") {
  UserNames names(recorded("processes-host").etc);
  CHECK(names.of(0) == "root");
  CHECK(names.of(1001) == "zhao");
  CHECK(names.of(4294967294U) == "4294967294");
}
