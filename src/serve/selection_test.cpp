#include "serve/selection.hpp"

#include <doctest/doctest.h>

using berth::model::Job;
using berth::model::JobId;
using berth::model::JobState;
using berth::serve::select_jobs;

namespace {

constexpr std::int64_t kDay = 24LL * 3600 * 1000, kNow = 100 * kDay;

std::map<JobId, Job> some_jobs() {
  std::map<JobId, Job> jobs;
  const auto add = [&](JobId id, std::uint32_t uid, JobState state, std::int64_t ended = 0) {
    Job& job = jobs[id];
    job.id = id;
    job.uid = uid;
    job.user = uid == 1 ? "lin" : "zhao";
    job.name = "n" + std::to_string(id);
    job.state = state;
    if (ended != 0) job.ended_unix_milliseconds = ended;
  };
  add(1, 1, JobState::kDone, kNow - 3 * kDay);
  add(2, 2, JobState::kFailed, kNow - 1000);
  add(3, 1, JobState::kDone, kNow - 500);
  add(4, 1, JobState::kWaiting);
  add(5, 2, JobState::kHeld);
  add(6, 2, JobState::kRunning);
  add(8, 1, JobState::kHeld);
  jobs[8].task = {7, 0, 0};
  return jobs;
}

std::vector<const Job*> pointers_to(const std::map<JobId, Job>& jobs) {
  std::vector<const Job*> out;
  for (const auto& [id, job] : jobs) out.push_back(&job);
  return out;
}

std::vector<JobId> ids(std::map<std::string, std::string> query) {
  const auto jobs = some_jobs();
  const auto selected = select_jobs(pointers_to(jobs), query, 1, kNow);
  REQUIRE(selected);
  std::vector<JobId> out;
  for (const Job* job : selected->jobs) out.push_back(job->id);
  return out;
}

}  // namespace

TEST_CASE("jobs are chosen by user, state, number, name and time") {
  using Ids = std::vector<JobId>;
  CHECK(ids({}) == Ids{2, 3, 4, 5, 6, 8});
  CHECK(ids({{"all", ""}}) == Ids{1, 2, 3, 4, 5, 6, 8});
  CHECK(ids({{"mine", ""}}) == Ids{3, 4, 8});
  CHECK(ids({{"user", "zhao"}, {"state", "held,running"}}) == Ids{5, 6});
  CHECK(ids({{"user", "2"}}) == Ids{2, 5, 6});
  CHECK(ids({{"number", "1,5-7"}}) == Ids{1, 5, 6, 8});
  CHECK(ids({{"running", ""}, {"also", "7"}}) == Ids{6, 8});
  CHECK(ids({{"running", ""}, {"also", ""}}) == Ids{6});
  CHECK(ids({{"since", std::to_string(kNow - 4 * kDay)}, {"state", "done"}}) == Ids{1, 3});
  CHECK(ids({{"name", "n4"}}) == Ids{4});
  CHECK(ids({{"name", "n5"}}).empty());
  CHECK(ids({{"last", ""}}) == Ids{8});
}

TEST_CASE("the last job is the last queued one, or else the last terminal job") {
  auto jobs = some_jobs();
  jobs[4].queued = true;
  const auto selected = select_jobs(pointers_to(jobs), {{"last", ""}}, 1, kNow);
  REQUIRE(selected);
  CHECK(selected->jobs.at(0)->id == 4);
}

TEST_CASE("above the limit, running jobs come first and the rest is counted") {
  const auto jobs = some_jobs();
  const auto selected = select_jobs(pointers_to(jobs), {{"limit", "4"}}, 1, kNow);
  REQUIRE(selected);
  CHECK(selected->not_shown == 2);
  CHECK(ids({{"limit", "5"}}) == std::vector<JobId>{6, 4, 5, 8, 3});
}

TEST_CASE("one job stands for similar jobs of its array, but running jobs are listed singly") {
  std::map<JobId, Job> jobs;
  for (JobId id = 1; id <= 9; ++id) {
    Job& job = jobs[id];
    job.id = id;
    job.task = {100, static_cast<int>(id) * 10, 0};
    job.state = id <= 2 ? JobState::kRunning : id % 3 == 0 ? JobState::kHeld : JobState::kWaiting;
  }
  const auto selected = select_jobs(pointers_to(jobs), {{"compact", ""}, {"limit", "4"}}, 1, kNow);
  REQUIRE(selected);
  std::vector<JobId> ids;
  for (const Job* job : selected->jobs) ids.push_back(job->id);
  CHECK(ids == std::vector<JobId>{1, 2, 3, 4});
  CHECK(selected->not_shown == 0);
  CHECK(selected->alike == std::map<JobId, std::string>{{3, "30,60,90"}, {4, "40,50,70,80"}});
}

TEST_CASE("an invalid query is refused") {
  const auto jobs = some_jobs();
  for (const auto& [key, word] : std::map<std::string, std::string>{{"state", "sleeping"},
                                                                    {"number", "5-2"},
                                                                    {"number", "x"},
                                                                    {"limit", "-1"},
                                                                    {"since", "now"}})
    CHECK(select_jobs(pointers_to(jobs), {{key, word}}, 1, kNow).error().id == "E0919");
}
