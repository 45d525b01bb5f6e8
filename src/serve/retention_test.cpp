#include "serve/retention.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

using namespace berth;
using berth::serve::Retention;

namespace {

struct Logs {
  Logs() {
    std::string pattern = "/tmp/berth-retention-XXXXXX";
    folder = ::mkdtemp(pattern.data());
  }
  ~Logs() { std::filesystem::remove_all(folder); }
  void write(model::JobId id, std::size_t bytes) const {
    std::ofstream(of(id)) << std::string(bytes, 'x');
  }
  [[nodiscard]] Retention::Files files(model::JobId id) const { return {of(id), of(id) + "r"}; }
  [[nodiscard]] std::string of(model::JobId id) const { return folder + "/" + std::to_string(id); }
  std::string folder;
};

model::Job ended_at(model::JobId id, std::int64_t time, bool queued = true) {
  model::Job job;
  job.id = id;
  job.queued = queued;
  job.state = model::JobState::kDone;
  job.ended_unix_milliseconds = time;
  return job;
}

}  // namespace

TEST_CASE("the oldest output is too much first, and the newest never") {
  const Logs logs;
  Retention retention([&](model::JobId id) { return logs.files(id); }, 100'000);
  Retention::Jobs jobs{{1, ended_at(1, 10)}, {2, ended_at(2, 20)}, {3, ended_at(3, 30)}};
  for (model::JobId id = 1; id <= 3; ++id) logs.write(id, 45'000);
  CHECK(retention.too_much_output_before(jobs) == 11);
  retention.forget(1);
  jobs.erase(1);
  CHECK(retention.too_much_output_before(jobs) == 0);
  logs.write(4, 500'000);
  jobs[4] = ended_at(4, 40);
  CHECK(retention.too_much_output_before(jobs) == 31);
  jobs[4].state = model::JobState::kRunning;
  CHECK_MESSAGE(retention.too_much_output_before(jobs) == 0, "a running job keeps its output");
}

TEST_CASE("reports count as output, also those of leases") {
  const Logs logs;
  Retention retention([&](model::JobId id) { return logs.files(id); }, 100'000);
  Retention::Jobs jobs{{1, ended_at(1, 10, false)}, {2, ended_at(2, 20)}, {3, ended_at(3, 30)}};
  logs.write(2, 45'000);
  logs.write(3, 45'000);
  std::ofstream(logs.files(1).report) << std::string(5'000, 'x');
  CHECK(retention.too_much_output_before(jobs) == 0);
  std::ofstream(logs.files(1).report) << std::string(45'000, 'x');
  CHECK(retention.too_much_output_before(jobs) == 0);
  retention.forget(1);
  CHECK(retention.too_much_output_before(jobs) == 11);
}

TEST_CASE(
    "the middle of a running job's long output is removed, and reported when it has doubled") {
  const Logs logs;
  Retention retention([&](model::JobId id) { return logs.files(id); }, 2'000'000);
  const auto append = [&](std::size_t bytes) {
    std::ofstream(logs.of(7), std::ios::app) << std::string(bytes, 'x');
  };
  append(1'900'000);
  CHECK(retention.limit_running(7).empty());
  append(1'900'000);
  CHECK(retention.limit_running(7).find("running job 7 has written more than 1.91 MiB") == 0);
  CHECK(retention.limit_running(7).empty());
  append(1'500'000);
  CHECK(retention.limit_running(7).empty());
  append(9'000'000);
  CHECK_FALSE(retention.limit_running(7).empty());
  CHECK(std::filesystem::file_size(logs.of(7)) == 14'300'000);
  CHECK(retention.limit_running(8).empty());
}

TEST_CASE("a user's many leases are deleted without their queued jobs") {
  Retention::Jobs jobs;
  for (model::JobId id = 1; id <= 20'001; ++id)
    jobs[id] = ended_at(id, static_cast<std::int64_t>(id), false);
  jobs[30'000] = ended_at(30'000, 1);
  const auto before = Retention::too_many_before(jobs);
  REQUIRE(before.size() == 1);
  CHECK(before.begin()->first == broker::UserJobs{0, false});
  CHECK(before.begin()->second == 2);
}
