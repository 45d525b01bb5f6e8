#include "broker/salvage.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include "broker/journal.hpp"
#include "broker/journal_pages.hpp"

namespace fs = std::filesystem;

using berth::broker::Journal;
using berth::model::Job;
using berth::model::JobId;
using berth::model::JobState;

namespace {

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/berth-salvage-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path;
};

Job job(JobId id, JobState state = JobState::kWaiting) {
  Job made;
  made.id = id;
  made.queued = true;
  made.name = "job number " + std::to_string(id);
  made.command = {"python", "train.py", std::string(id % 5 * 300, 'x')};
  made.state = state;
  return made;
}

std::string slurp(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void put(const std::string& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

/// A journal of 60 jobs after its broker was killed: most of it is in the WAL.
struct Killed {
  Killed() {
    const pid_t child = ::fork();
    if (child == 0) {
      auto journal = Journal::open(folder.path);
      for (JobId id = 1; journal && id <= 60; ++id) {
        const Job one = job(id);
        if (!journal->write({&one}) || !journal->keep_launch(id, std::string(1500, 'l')))
          ::_exit(1);
        if (id == 20) journal->tidy(true);
      }
      for (JobId id = 1; id <= 30; ++id) {
        const Job one = job(id, JobState::kDone);
        if (!journal->write({&one}, {}, {{"clock", "here"}})) ::_exit(1);
      }
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(status == 0);
    database = slurp(folder.path + "/journal.db");
    wal = slurp(folder.path + "/journal.db-wal");
    REQUIRE(wal.size() > 100'000);
  }
  void restore() const {
    fs::remove_all(folder.path);
    fs::create_directory(folder.path);
    fs::permissions(folder.path, fs::perms::owner_all);
    put(folder.path + "/journal.db", database);
    put(folder.path + "/journal.db-wal", wal);
  }
  Folder folder;
  std::string database, wal;
};

/// Every job is either unchanged or reported as lost or stale.
void check_all_known(const Killed& killed, std::size_t most_named) {
  auto journal = Journal::open(killed.folder.path);
  REQUIRE(journal);
  const auto jobs = journal->jobs();
  REQUIRE(jobs);
  std::set<JobId> good, named;
  if (const auto& salvaged = journal->salvaged()) {
    named.insert(salvaged->stale.begin(), salvaged->stale.end());
    named.insert(salvaged->lost.begin(), salvaged->lost.end());
    CHECK(fs::exists(salvaged->folder + "/journal.db"));
  }
  for (const Job& one : *jobs) {
    CHECK(one.name == job(one.id).name);
    if (one.state == (one.id <= 30 ? JobState::kDone : JobState::kWaiting)) good.insert(one.id);
  }
  std::size_t missing = 0;
  for (JobId id = 1; id <= 60; ++id)
    missing += static_cast<std::size_t>(!good.contains(id) && !named.contains(id));
  CHECK(missing <= (journal->salvaged() ? journal->salvaged()->nameless : 0));
  CHECK(named.size() <= most_named);
}

}  // namespace

TEST_CASE("a sound journal is not touched") {
  const Killed killed;
  killed.restore();
  const auto journal = Journal::open(killed.folder.path);
  REQUIRE(journal);
  CHECK_FALSE(journal->salvaged());
  CHECK(journal->jobs()->size() == 60);
}

TEST_CASE("a flipped bit in the WAL loses at most the record that contains it") {
  const Killed killed;
  std::mt19937 random(7);
  for (int round = 0; round < 15; ++round) {
    killed.restore();
    std::string wal = killed.wal;
    const std::size_t at = random() % (wal.size() - 1100);
    wal[at] = static_cast<char>(wal[at] ^ (1 << random() % 8));
    put(killed.folder.path + "/journal.db-wal", wal);
    INFO("byte " << at);
    check_all_known(killed, 8);
  }
}

TEST_CASE("a damaged page, header or end of the database is repaired from the other records") {
  const Killed killed;
  std::mt19937 random(8);
  for (int round = 0; round < 15; ++round) {
    killed.restore();
    std::string database = killed.database;
    const std::size_t at = round < 4 ? static_cast<std::size_t>(round) : random() % database.size();
    database[at] = static_cast<char>(database[at] ^ (1 << random() % 8));
    put(killed.folder.path + "/journal.db", database);
    INFO("byte " << at);
    check_all_known(killed, 8);
  }
}

TEST_CASE("one unreadable record does not prevent opening, and is reported") {
  const Killed killed;
  killed.restore();
  { CHECK(Journal::open(killed.folder.path)->jobs()->size() == 60); }
  sqlite3* database = nullptr;
  REQUIRE(::sqlite3_open((killed.folder.path + "/journal.db").c_str(), &database) == SQLITE_OK);
  CHECK(::sqlite3_exec(database, "UPDATE job SET record = 'nonsense' WHERE id = 42", nullptr,
                       nullptr, nullptr) == SQLITE_OK);
  ::sqlite3_close(database);
  auto journal = Journal::open(killed.folder.path);
  REQUIRE(journal);
  REQUIRE(journal->salvaged());
  CHECK(journal->jobs()->size() == 59);
  CHECK(journal->salvaged()->lost == std::vector<JobId>{42});
  CHECK(journal->launch(41) == std::string(1500, 'l'));
  CHECK(journal->value("clock") == "here");
}

TEST_CASE("a file that is not a journal is set aside, and the newest copy replaces it") {
  const Folder folder;
  {
    auto journal = Journal::open(folder.path);
    const Job one = job(1);
    REQUIRE(journal->write({&one}));
    constexpr std::int64_t kDay = 86'400'000;
    for (int i = 0; i < 5; ++i)
      for (int day = 20'000; day < 20'005; ++day) journal->keep_daily_copy(day * kDay);
  }
  CHECK(fs::exists(folder.path + "/copies/journal-2024-10-07.db"));
  CHECK_FALSE(fs::exists(folder.path + "/copies/journal-2024-10-04.db"));
  put(folder.path + "/journal.db", std::string(5000, 'x'));
  fs::remove(folder.path + "/journal.db-wal");
  auto journal = Journal::open(folder.path);
  REQUIRE(journal);
  REQUIRE(journal->salvaged());
  CHECK(slurp(journal->salvaged()->folder + "/journal.db") == std::string(5000, 'x'));
  CHECK(journal->salvaged()->stale == std::vector<JobId>{1});
  CHECK(journal->jobs()->size() == 1);
}

TEST_CASE("two journals that are damaged in the same second are both kept") {
  const Folder folder;
  std::set<std::string> kept;
  for (const char* bytes : {"first nonsense", "second nonsense", "third nonsense"}) {
    put(folder.path + "/journal.db", bytes);
    fs::remove(folder.path + "/journal.db-wal");
    auto journal = Journal::open(folder.path);
    REQUIRE(journal);
    REQUIRE(journal->salvaged());
    CHECK(slurp(journal->salvaged()->folder + "/journal.db") == bytes);
    kept.insert(journal->salvaged()->folder);
  }
  CHECK(kept.size() == 3);
}

TEST_CASE("a WAL whose database was moved away or emptied is read") {
  const Killed killed;
  for (const bool is_there : {false, true}) {
    killed.restore();
    if (is_there)
      put(killed.folder.path + "/journal.db", "");
    else
      fs::remove(killed.folder.path + "/journal.db");
    INFO("there: " << is_there);
    auto journal = Journal::open(killed.folder.path);
    REQUIRE(journal);
    REQUIRE(journal->salvaged());
    CHECK(fs::exists(journal->salvaged()->folder + "/journal.db-wal"));
    CHECK(journal->jobs()->size() == 60);
    CHECK(journal->launch(60) == std::string(1500, 'l'));
  }
}

TEST_CASE("a lost journal comes back from its newest copy, whose jobs count as old") {
  const Folder folder;
  {
    auto journal = Journal::open(folder.path);
    const Job one = job(1), two = job(2);
    REQUIRE(journal->write({&one}));
    for (int i = 0; i < 3; ++i) journal->keep_daily_copy(1'700'000'000'000);
    REQUIRE(journal->write({&two}));
  }
  for (const bool is_there : {false, true}) {
    fs::remove(folder.path + "/journal.db-wal");
    fs::remove(folder.path + "/journal.db");
    if (is_there) put(folder.path + "/journal.db", "");
    auto journal = Journal::open(folder.path);
    REQUIRE(journal);
    REQUIRE(journal->salvaged());
    CHECK(journal->salvaged()->folder.empty());
    CHECK(journal->salvaged()->stale == std::vector<JobId>{1});
    CHECK(journal->jobs()->size() == 1);
  }
  // The repaired journal needs no salvage.
  CHECK_FALSE(Journal::open(folder.path)->salvaged());
}

TEST_CASE("the next broker completes an interrupted salvage") {
  const Killed killed;
  killed.restore();
  // A salvage was interrupted: the new database is complete, and the old WAL still exists.
  put(killed.folder.path + "/journal.db.salvaged", killed.database);
  { REQUIRE(Journal::open(killed.folder.path)); }
  CHECK_FALSE(fs::exists(killed.folder.path + "/journal.db.salvaged"));
}

TEST_CASE("random bytes instead of a journal cause no crash") {
  std::mt19937 random(9);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(random() % 9000, '\0');
    for (char& one : bytes) one = static_cast<char>(random());
    if (!bytes.empty() && round % 2 == 0)
      for (std::size_t at = 0; at < bytes.size(); at += 1024) bytes[at] = '\x0d';
    for (const auto& one : berth::broker::records_in(bytes, 1024)) CHECK_FALSE(one.is_good);
    const auto wal = berth::broker::read_wal(bytes, 1024);
    static_cast<void>(berth::broker::with_frames(bytes, bytes, wal, berth::broker::Frames::kAll));
  }
}
