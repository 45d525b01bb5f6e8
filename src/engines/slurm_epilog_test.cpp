#include "engines/slurm_epilog.hpp"

#include <doctest/doctest.h>

#include <string>

namespace berth::engines {
namespace {

using namespace std::string_literals;

model::Snapshot card() {
  model::Snapshot snapshot;
  model::Device device;
  device.index = 0;
  device.kind = model::DeviceKind::kGpu;
  device.vendor = model::Vendor::kNvidia;
  device.minor_number = 3;
  snapshot.devices.push_back(device);
  return snapshot;
}

model::DeviceProcess process(std::int64_t pid, std::uint32_t uid) {
  model::DeviceProcess out;
  out.device = 0;
  out.pid = pid;
  out.uid = uid;
  out.kind.compute = true;
  out.command = "/usr/bin/python3 train.py";
  return out;
}

TEST_CASE("a process is a job's by its variable or its control group, and by nothing like them") {
  CHECK(is_of_job("A=1\0SLURM_JOB_ID=7\0"s, "", 7));
  CHECK(is_of_job("", "0::/system.slice/slurmstepd.scope/job_7/step_0\n", 7));
  CHECK(is_of_job("", "4:devices:/slurm/uid_1/job_7\n", 7));
  CHECK_FALSE(
      is_of_job("SLURM_JOB_ID=77\0XSLURM_JOB_ID=7\0"s, "0::/job_77/step_0\n0::/a/job_7x\n", 7));
  CHECK_FALSE(is_of_job("", "", 7));
}

TEST_CASE("only the user's processes on the job's GPUs are looked at") {
  model::Snapshot snapshot = card();
  snapshot.processes = {process(10, 1000), process(11, 1001), process(10, 1000)};
  CHECK(processes_of(snapshot, {3}, 1000).size() == 1);
  CHECK(processes_of(snapshot, {0}, 1000).empty());
}

TEST_CASE("what is left is named, but not graphics and a driver's own memory") {
  model::Snapshot snapshot = card();
  CHECK(left_on(snapshot, {3}).empty());
  snapshot.processes = {process(10, 1000)};
  CHECK(left_on(snapshot, {3}) == "GPU 3: python3 (pid 10)");
  snapshot.processes[0].kind = {false, true, false};
  snapshot.unattributed = {{0, 300U << 20U, "unknown", {}},
                           {0, std::uint64_t{4} << 30U, "driver_reserve", {}}};
  CHECK(left_on(snapshot, {3}).empty());
  snapshot.unattributed = {{0, std::uint64_t{3} << 30U, "not_listed", {}}};
  const std::string left = left_on(snapshot, {3});
  CHECK(left == "GPU 3: 3.00 GiB without a process");
  CHECK(is_left_reason(left_reason(left, 7)));
  CHECK_FALSE(is_left_reason("new fans left by job 7"));
}

TEST_CASE("a comment of somebody else is kept") {
  CHECK(may_comment("JobId=7 JobName=x"));
  CHECK(may_comment("JobId=7 AdminComment=berth: gpus=0"));
  CHECK(may_comment("JobId=7 AdminComment=(null)"));
  CHECK_FALSE(may_comment("JobId=7 AdminComment=paid by group 3"));
  CHECK(job_comment({{0, 1}, 2, "", ""}) == "berth: gpus=0,1 orphans_ended=2 left=none health=ok");
}

}  // namespace
}  // namespace berth::engines
