#include "broker/journal.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "broker/job_record.hpp"

using berth::broker::job_of;
using berth::broker::Journal;
using berth::broker::record_of;
using berth::model::Job;
using berth::model::JobState;

namespace {

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/berth-journal-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path;
};

Job job(std::uint64_t id) {
  Job made;
  made.id = id;
  made.uid = 1000;
  made.user = "zhao";
  made.name = "night \xff run";
  made.request.memory_bytes = 8ULL << 30;
  made.request.devices = {"0", "GPU-1"};
  made.request.inherited_cuda = "";
  made.command = {"python", "train.py"};
  made.priority = -3;
  made.time_limit = std::chrono::hours(2);
  made.after = {1, 2};
  made.state = JobState::kRunning;
  made.submitted_unix_milliseconds = 5;
  made.started_unix_milliseconds = 6;
  made.grants = {{"GPU-1", 8ULL << 30}};
  made.cpus = {0, 1};
  made.affinity = "0-1";
  made.owners = {{4711, 99}};
  made.outcome = berth::model::Outcome{berth::model::OutcomeClass::kSignal, 137, 9};
  made.told_to_end = berth::model::ToldToEnd{JobState::kFailed, "over"};
  made.why = "because";
  return made;
}

Journal open(const std::string& path) {
  auto journal = Journal::open(path);
  REQUIRE(journal);
  return *std::move(journal);
}

/// Changes the database directly, as another program could.
void execute(const std::string& file, const char* sql) {
  sqlite3* database = nullptr;
  REQUIRE(::sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  CHECK(::sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  ::sqlite3_close(database);
}

}  // namespace

TEST_CASE("a job's record contains all its fields") {
  const Job before = job(7);
  const auto after = job_of(record_of(before));
  REQUIRE(after);
  CHECK(record_of(*after) == record_of(before));
  CHECK(after->request.inherited_cuda == "");
  CHECK_FALSE(after->request.gpus);
  CHECK(after->owners == before.owners);
  CHECK(after->grants == before.grants);
  CHECK(after->time_limit == before.time_limit);
  CHECK(after->outcome->signal == 9);
  CHECK(after->told_to_end->state == JobState::kFailed);
  CHECK(after->told_to_end->why == "over");
  CHECK(job_of(R"({"told_to_end":{"state":"running"}})")->told_to_end->state ==
        JobState::kCancelled);
  CHECK(job_of("{}")->id == 0);
  for (const char* bad : {"", "[", "3", "{\"id\":\"x\"}", "{\"grants\":3}", "{\"owners\":[3]}",
                          "{\"told_to_end\":3}"})
    CHECK(job_of(bad).error().id == "E0904");
}

TEST_CASE("a submission may have a key, and unknown keys are refused") {
  const auto taken = berth::broker::submission_of(R"({"command":["true"],"key":"a-key"})");
  REQUIRE(taken);
  CHECK(taken->job.key == "a-key");
  CHECK(berth::broker::submission_of(R"({"command":["true"],"kee":"a-key"})").error().id ==
        "E0904");
}

TEST_CASE("written jobs are read back when the journal is opened again") {
  const Folder folder;
  {
    Journal journal = open(folder.path + "/below/here");
    const Job one = job(1), two = job(2), three = job(3);
    REQUIRE(journal.write({&three, &one, &two}));
    REQUIRE(journal.write({}, {2}));
    REQUIRE(journal.set_value("drained", "GPU-6"));
    REQUIRE(journal.write({}, {}, {{"drained", "GPU-7"}, {"clock", "1"}}));
    journal.sync();
    journal.tidy(true);
  }
  const Journal journal = open(folder.path + "/below/here");
  const auto jobs = journal.jobs();
  REQUIRE(jobs);
  REQUIRE(jobs->size() == 2);
  CHECK(jobs->front().id == 1);
  CHECK(jobs->back().id == 3);
  CHECK(journal.value("drained") == "GPU-7");
  CHECK(journal.value("clock") == "1");
  CHECK_FALSE(journal.value("other"));
  struct stat status = {};
  REQUIRE(::stat((folder.path + "/below/here/journal.db").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("a launch record stays as long as its job") {
  const Folder folder;
  {
    auto journal = Journal::open(folder.path);
    REQUIRE(journal);
    REQUIRE(journal->keep_launch(7, "first"));
    REQUIRE(journal->keep_launch(7, std::string_view("sec\0ond", 7)));
    REQUIRE(journal->keep_launch(8, "other"));
  }
  auto journal = Journal::open(folder.path);
  REQUIRE(journal);
  CHECK(journal->launch(7) == std::string("sec\0ond", 7));
  CHECK_FALSE(journal->launch(9));
  REQUIRE(journal->write({}, {7}));
  CHECK_FALSE(journal->launch(7));
  CHECK(journal->launch(8) == "other");
}

TEST_CASE("only one broker can open a journal") {
  const Folder folder;
  const Journal first = open(folder.path);
  const auto second = Journal::open(folder.path);
  REQUIRE_FALSE(second);
  CHECK(second.error().id == "E0906");
}

TEST_CASE("a newer journal is refused and left as it is") {
  const Folder folder;
  const std::string file = folder.path + "/journal.db";
  { open(folder.path); }
  execute(file, "PRAGMA user_version = 9");
  CHECK(Journal::open(folder.path).error().message.find("newer") != std::string::npos);
  CHECK(Journal::open("/proc/nothing").error().id == "E0907");
  CHECK(Journal::open("/sys/nothing").error().hint.find("BERTH_STATE_DIR=") != std::string::npos);
  for (const auto& one : std::filesystem::directory_iterator(folder.path))
    CHECK(one.path().filename().string().starts_with("journal.db"));
}

TEST_CASE("a journal of an earlier format is copied, and then upgraded") {
  const Folder folder;
  const std::string file = folder.path + "/journal.db";
  const std::string sql =
      "PRAGMA page_size = 1024; PRAGMA journal_mode = WAL;"
      "CREATE TABLE job (id INTEGER PRIMARY KEY, record TEXT NOT NULL);"
      "CREATE TABLE value (key TEXT PRIMARY KEY, value TEXT NOT NULL);"
      "CREATE TABLE launch (id INTEGER PRIMARY KEY, record BLOB NOT NULL);"
      "INSERT INTO job VALUES (7, '" +
      record_of(job(7)) +
      "');"
      "INSERT INTO launch VALUES (7, x'6100'); INSERT INTO value VALUES ('drained', '[]');"
      "PRAGMA user_version = 2";
  execute(file, sql.c_str());
  {
    const Journal journal = open(folder.path);
    CHECK_FALSE(journal.salvaged());
    REQUIRE(journal.jobs()->size() == 1);
    CHECK(journal.jobs()->front().name == job_of(record_of(job(7)))->name);
    CHECK(journal.launch(7) == std::string("a\0", 2));
    CHECK(journal.value("drained") == "[]");
  }
  CHECK_FALSE(open(folder.path).salvaged());
  CHECK(std::filesystem::exists(folder.path + "/copies/before-format-3.db"));
}

TEST_CASE("on a full disk a change is refused, and confirmed jobs are kept") {
  const Folder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{256 << 10, 256 << 10};
    auto journal = Journal::open(folder.path);
    if (!journal || ::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(3);
    for (std::uint64_t id = 1; id < 1000; ++id) {
      const Job one = job(id);
      const auto written = journal->write({&one});
      if (written) continue;
      // The failed write has not changed any earlier job.
      const auto jobs = journal->jobs();
      const bool good = written.error().id == "E0908" && jobs && jobs->size() == id - 1 &&
                        !written.error().hint.empty();
      ::_exit(good ? static_cast<int>(std::min<std::uint64_t>(id, 100)) : 1);
    }
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) > 10);
  CHECK(open(folder.path).jobs()->size() >= 10);
}

TEST_CASE("kill -9 loses nothing that was confirmed") {
  std::mt19937 random(5);
  const Folder folder;
  const int rounds = ::getenv("BERTH_SOAK") != nullptr ? 500 : 25;
  std::uint64_t next = 1;
  for (int round = 0; round < rounds; ++round) {
    int confirmed[2] = {-1, -1};
    REQUIRE(::pipe(confirmed) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto journal = Journal::open(folder.path);
      for (std::uint64_t id = next; journal; ++id) {
        const Job one = job(id);
        const auto written = journal->write(
            {&one}, id % 7 == 0 ? std::vector{id - 1} : std::vector<std::uint64_t>{});
        if (!written || ::write(confirmed[1], &id, sizeof id) != sizeof id) break;
        if (id % 50 == 0) journal->tidy(true);
      }
      ::_exit(1);
    }
    ::close(confirmed[1]);
    std::uint64_t last = next - 1;
    const int after = static_cast<int>(random() % 60);
    for (int i = 0; i <= after; ++i)
      REQUIRE(::read(confirmed[0], &last, sizeof last) == sizeof last);
    ::kill(child, SIGKILL);
    while (::read(confirmed[0], &last, sizeof last) == sizeof last) {
    }
    ::close(confirmed[0]);
    ::waitpid(child, nullptr, 0);
    const auto jobs = open(folder.path).jobs();
    REQUIRE(jobs);
    // The last job may be in the journal although its write was not confirmed.
    REQUIRE(jobs->back().id >= last);
    REQUIRE(jobs->back().id <= last + 1);
    std::uint64_t expected = 1;
    for (const Job& one : *jobs) {
      if (expected % 7 == 6 && one.id == expected + 1) ++expected;
      REQUIRE(one.id == expected++);
    }
    next = jobs->back().id + 1;
  }
}
