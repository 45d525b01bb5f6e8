#include "serve/adoption.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "broker/job_record.hpp"
#include "serve/watches.hpp"

namespace fs = std::filesystem;

using berth::model::Job;
using berth::model::JobId;
using berth::model::JobState;
using berth::serve::adopt_unknown_files;
using berth::serve::list_of_jobs;
using berth::serve::words_of;

namespace {

class State {
 public:
  State() {
    char name[] = "/tmp/berth-adoption-XXXXXX";
    path = ::mkdtemp(name);
    jobs = path + "/jobs";
    fs::create_directory(jobs);
  }
  ~State() { fs::remove_all(path); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Writes the files that a keeper writes. `ending`: how the job ended, as JSON, or "" if it has
  /// not ended.
  void put(JobId id, std::int64_t pid, std::uint64_t ticks, std::string ending,
           const std::string& record) const {
    std::ofstream(jobs + "/" + std::to_string(id) + ".log") << "output of " << id << "\n";
    std::string first = std::to_string(pid) + " " + std::to_string(ticks);
    first.resize(63, ' ');
    ending.resize(256 - 64, ' ');
    std::ofstream(jobs + "/" + std::to_string(id) + ".status") << first << "\n" << ending << record;
  }

  std::string path, jobs;
};

std::string record(JobId id) {
  Job job;
  job.id = id;
  job.uid = 1000;
  job.name = "sweep";
  job.queued = true;
  job.command = {"python", "train.py"};
  job.state = JobState::kRunning;
  job.grants = {{"GPU-1", 0}};
  job.started_unix_milliseconds = 5;
  return berth::broker::record_of(job);
}

constexpr std::int64_t kNow = 1'700'000'000'000;
constexpr std::int64_t kNobody = 999'999'999;

bool none(JobId /*id*/) {
  return false;
}

}  // namespace

TEST_CASE("jobs that the journal lost are rebuilt from their files") {
  const State state;
  const auto own = berth::serve::start_ticks_of(::getpid());
  REQUIRE(own);
  state.put(3, ::getpid(), *own, "", record(3));
  state.put(5, kNobody, 7, R"({"schema":1,"pid":2,"exit_code":0,"signal":null})", record(5));
  state.put(6, kNobody, 7, R"({"schema":1,"pid":2,"exit_code":9,"signal":null})", record(6));
  state.put(7, kNobody, 7, "", record(7));
  const auto found = adopt_unknown_files(state.jobs, none, {}, kNow);
  REQUIRE(found.jobs.size() == 4);
  CHECK(found.highest == 7);
  CHECK(found.aside.empty());
  CHECK(found.jobs[0].state == JobState::kRunning);
  REQUIRE(found.jobs[0].owners.size() == 1);
  CHECK(found.jobs[0].owners[0].pid == ::getpid());
  CHECK(found.jobs[0].grants.size() == 1);
  CHECK(found.jobs[0].name == "sweep");
  CHECK(found.jobs[1].state == JobState::kDone);
  CHECK(found.jobs[2].state == JobState::kFailed);
  CHECK(found.jobs[2].outcome->exit_code == 9);
  CHECK(found.jobs[3].state == JobState::kLost);
  CHECK(found.jobs[3].ended_unix_milliseconds);
  for (const char* name : {"3.log", "5.status", "7.log"})
    CHECK(fs::exists(state.jobs + "/" + name));
  REQUIRE(words_of(found).size() == 1);
  CHECK(words_of(found)[0].find("3, 5-7") != std::string::npos);
}

TEST_CASE("files of unknown jobs are moved aside, and nothing is deleted") {
  const State state;
  state.put(4, kNobody, 7, "", "nonsense");
  state.put(8, kNobody, 7, "", record(9));  // the record has the number of another job
  std::ofstream(state.jobs + "/12.log") << "alone\n";
  std::ofstream(state.jobs + "/notes.txt") << "mine\n";
  std::ofstream(state.jobs + "/99999999999999999999.log") << "mine\n";
  const auto found = adopt_unknown_files(state.jobs, none, {}, kNow);
  CHECK(found.jobs.empty());
  CHECK(found.aside == std::vector<JobId>{4, 8, 12});
  CHECK(found.folder == state.path + "/unknown-2023-11-14T22-13-20");
  CHECK(found.highest == 12);
  for (const char* name : {"/4.log", "/4.status", "/8.log", "/12.log"})
    CHECK(fs::exists(found.folder + name));
  CHECK_FALSE(fs::exists(state.jobs + "/4.log"));
  CHECK(fs::exists(state.jobs + "/notes.txt"));
  REQUIRE(words_of(found).size() == 1);
  CHECK(words_of(found)[0].find("4, 8, 12") != std::string::npos);
  CHECK(words_of(found)[0].find(found.folder) != std::string::npos);
}

TEST_CASE("files of a running job are not moved") {
  const State state;
  state.put(2, ::getpid(), *berth::serve::start_ticks_of(::getpid()), "", "");
  const auto found = adopt_unknown_files(state.jobs, none, {}, kNow);
  CHECK(found.alone == std::vector<JobId>{2});
  CHECK(found.jobs.empty());
  CHECK(fs::exists(state.jobs + "/2.log"));
}

TEST_CASE("only files of jobs that the journal forgot on purpose are deleted") {
  const State state;
  for (const JobId id : {1UL, 2UL, 3UL}) state.put(id, kNobody, 7, "", record(id));
  const auto found = adopt_unknown_files(
      state.jobs, [](JobId id) { return id == 1; }, {2}, kNow);
  CHECK(fs::exists(state.jobs + "/1.log"));
  CHECK_FALSE(fs::exists(state.jobs + "/2.log"));
  REQUIRE(found.jobs.size() == 1);
  CHECK(found.jobs[0].id == 3);
}

TEST_CASE("lists of jobs are short") {
  CHECK(list_of_jobs({}).empty());
  CHECK(list_of_jobs({1, 2, 3, 7, 9, 10}) == "1-3, 7, 9-10");
  std::vector<JobId> many;
  for (JobId id = 1; id < 200; id += 2) many.push_back(id);
  CHECK(list_of_jobs(many).size() < 120);
  CHECK(list_of_jobs(many).find("and 80 more") != std::string::npos);
}
