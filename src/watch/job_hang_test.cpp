#include "watch/job_hang.hpp"

#include <doctest/doctest.h>

using namespace berth;
using namespace berth::watch;

namespace {

/// Makes a frame with job 7, which has one process on each device. `shares` has each process's
/// share of the device's time.
Frame frame_with(double seconds, const std::vector<model::Reading<double>>& shares) {
  Frame frame;
  frame.seconds = seconds;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    model::DeviceProcess& process = frame.snapshot.processes.emplace_back();
    process.device = static_cast<int>(i);
    process.pid = 100 + static_cast<std::int64_t>(i);
    process.uid = 1001;
    process.user = "lin";
    process.job = 7;
    process.sm_percent = shares[i];
  }
  return frame;
}

std::optional<bool> stands_still(JobHangs& hangs, double seconds,
                                 const std::vector<model::Reading<double>>& shares) {
  const auto jobs = hangs.add(frame_with(seconds, shares));
  return jobs.at(7).is_still;
}

}  // namespace

TEST_CASE("a job that has worked and now uses none of its devices stands still") {
  JobHangs hangs;
  // The job has not worked yet, so it may be loading data.
  CHECK_FALSE(stands_still(hangs, 0, {0.0, 0.0}));
  CHECK(stands_still(hangs, 1, {90.0, 0.0}) == false);
  CHECK(stands_still(hangs, 2, {0.0, 1.0}) == false);
  CHECK(stands_still(hangs, 3, {0.0, 0.0}) == true);
  const auto jobs = hangs.add(frame_with(4, {0.0, 0.0}));
  CHECK(jobs.at(7).user == "lin");
  CHECK(jobs.at(7).uid == 1001);
  CHECK(jobs.at(7).pids == std::vector<std::int64_t>{100, 101});
}

TEST_CASE("a share that is not known says nothing, and a little use is not yet work") {
  JobHangs hangs;
  CHECK(stands_still(hangs, 0, {2.0, 0.0}) == false);
  CHECK_FALSE(stands_still(hangs, 1, {0.0, 0.0}));
  CHECK(stands_still(hangs, 2, {50.0, 0.0}) == false);
  CHECK_FALSE(stands_still(hangs, 3, {0.0, model::Absence::kNotSupported}));
}

TEST_CASE("a job that is on no device for a moment is remembered, for half a day") {
  JobHangs hangs;
  CHECK(stands_still(hangs, 0, {50.0}) == false);
  CHECK(hangs.add(frame_with(3600, {})).empty());
  CHECK(stands_still(hangs, 3601, {0.0}) == true);
  CHECK(hangs.add(frame_with(3601 + 13 * 3600.0, {})).empty());
  CHECK_FALSE(stands_still(hangs, 3602 + 13 * 3600.0, {0.0}));
}
