#include "watch/history.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>

#include "watch/sqlite.hpp"

using namespace berth;
using namespace berth::watch;

namespace {

struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "berth-history-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file() const { return path + "/history.db"; }
  std::string path;
};

constexpr std::int64_t kStart = 1'700'000'000;  // deliberately not the beginning of a minute

Frame frame_at(std::int64_t second, double use) {
  Frame frame;
  frame.seconds = static_cast<double>(second);
  frame.snapshot.unix_milliseconds = (kStart + second) * 1000 + 123;
  model::Device device;
  device.index = 2;
  device.uuid = "GPU-abc";
  device.name = "NVIDIA Fake";
  device.readings.utilization_percent = use;
  device.readings.memory_used_bytes = std::uint64_t{3} << 30U;
  frame.snapshot.devices.push_back(device);
  model::DeviceProcess process;
  process.device = 2;
  process.user = "lin";
  process.kind.compute = true;
  process.command = "python3 a.py";
  process.sm_percent = use;
  frame.snapshot.processes.push_back(process);
  return frame;
}

std::vector<DeviceHistory> read(const Folder& folder, std::int64_t seconds, std::int64_t step = 0) {
  const auto reader = HistoryReader::open(folder.file());
  REQUIRE(reader);
  HistoryQuery query;
  query.from = kStart;
  query.to = kStart + seconds;
  query.step = step;
  return reader->devices(query);
}

}  // namespace

TEST_CASE("each second is kept, and means of ten seconds and of a minute") {
  const Folder folder;
  {
    auto history = History::open(folder.file());
    REQUIRE(history);
    for (int second = 0; second < 200; ++second) history->add(frame_at(second, second % 2 * 100));
  }
  const auto fine = read(folder, 1000);
  REQUIRE(fine.size() == 1);
  CHECK(fine[0].index == 2);
  REQUIRE(fine[0].moments.size() == 200);
  CHECK(fine[0].moments[0].first == kStart);
  CHECK(*fine[0].moments[1].second[0] == 100);
  CHECK(*fine[0].moments[7].second[2] == 3.0 * (1 << 30));
  const auto tens = read(folder, 1000, 10);
  CHECK(tens[0].step == 10);
  CHECK(tens[0].moments.size() == 20);
  CHECK(*tens[0].moments[3].second[0] == 50);
  CHECK(read(folder, 1000, 60)[0].moments.size() >= 3);
}

TEST_CASE("a daemon that is killed loses at most the last ten seconds, and the next goes on") {
  const Folder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    auto history = History::open(folder.file());
    for (int second = 0; second < 95; ++second) history->add(frame_at(second, 10));
    ::_exit(history ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(read(folder, 1000)[0].moments.size() >= 85);
  auto history = History::open(folder.file());
  REQUIRE(history);
  for (int second = 95; second < 130; ++second) history->add(frame_at(second, 10));
  CHECK(history->flush());
  // The history can be read while the daemon is still writing.
  CHECK(read(folder, 1000)[0].moments.size() >= 120);
}

TEST_CASE("usage by user is kept per minute and survives a restart") {
  const Folder folder;
  {
    auto history = History::open(folder.file());
    REQUIRE(history);
    for (int second = 0; second < 121; ++second) history->add(frame_at(second, 50));
  }
  const auto reader = HistoryReader::open(folder.file());
  REQUIRE(reader);
  double held = 0, used = 0;
  for (const UsageRow& row : reader->usage(0, kStart + 1000)) {
    CHECK(row.key.user == "lin");
    CHECK(row.key.program == "python3");
    held += row.usage.held_seconds;
    used += row.usage.used_seconds;
  }
  CHECK(held == doctest::Approx(120));
  CHECK(used == doctest::Approx(60));
}

TEST_CASE("old readings are deleted by tier, and usage is merged into hours without loss") {
  const Folder folder;
  auto history = History::open(folder.file());
  REQUIRE(history);
  for (int second = 0; second < 100; ++second) history->add(frame_at(second, 50));
  for (int second = 0; second < 20; ++second) history->add(frame_at(8 * 86'400 + second, 50));
  CHECK(history->flush());
  const auto reader = HistoryReader::open(folder.file());
  REQUIRE(reader);
  HistoryQuery query;
  query.from = kStart;
  query.to = kStart + 1000;
  query.step = 1;
  CHECK(reader->devices(query)[0].moments.empty());
  query.step = 60;
  CHECK_FALSE(reader->devices(query)[0].moments.empty());
  const auto rows = reader->usage(0, kStart + 86'400);
  double held = 0;
  for (const UsageRow& row : rows) {
    CHECK(row.from % 3600 == 0);
    held += row.usage.held_seconds;
  }
  CHECK(held == doctest::Approx(99));
}

TEST_CASE("a damaged file is set aside and reported, and a new one is created") {
  const Folder folder;
  std::ofstream(folder.file()) << std::string(5000, 'x');
  std::string said;
  auto history = History::open(folder.file(), [&](const std::string& note) { said = note; });
  REQUIRE(history);
  CHECK(said.find("history.db.damaged") != std::string::npos);
  CHECK(std::filesystem::exists(folder.file() + ".damaged"));
  history->add(frame_at(0, 1));
  CHECK(history->flush());
}

TEST_CASE("a missing history or folder is an error") {
  const Folder folder;
  const auto none = HistoryReader::open(folder.file());
  REQUIRE_FALSE(none);
  CHECK(none.error().id == "E0985");
  const auto nowhere = History::open(folder.path + "/no/history.db");
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().id == "E0984");
}

TEST_CASE("on a full disk readings wait in memory, and are written when there is room again") {
  const Folder folder;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    auto history = History::open(folder.file());
    if (!history) ::_exit(3);
    for (int second = 0; second < 20; ++second) history->add(frame_at(second, 50));
    const rlimit full{4096, RLIM_INFINITY}, enough{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &full);
    for (int second = 20; second < 200; ++second) history->add(frame_at(second, 50));
    const bool was_full = !history->flush();
    ::setrlimit(RLIMIT_FSIZE, &enough);
    const bool is_well = history->flush();
    ::_exit(!was_full ? 1 : !is_well ? 2 : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  const auto found = read(folder, 1000, 1);
  REQUIRE(found.size() == 1);
  CHECK(found[0].moments.size() == 200);
}

TEST_CASE("setting the clock back does no harm") {
  const Folder folder;
  auto history = History::open(folder.file());
  REQUIRE(history);
  for (int second = 5000; second < 5030; ++second) history->add(frame_at(second, 50));
  for (int second = 0; second < 30; ++second) history->add(frame_at(second, 70));
  CHECK(history->flush());
  CHECK(read(folder, 10'000)[0].moments.size() == 60);
}

TEST_CASE("throttling and Xids are kept by minute") {
  const Folder folder;
  auto history = History::open(folder.file());
  REQUIRE(history);
  for (int second = 0; second < 31; ++second) {
    Frame frame = frame_at(second, 50);
    model::Device& device = frame.snapshot.devices.back();
    device.pci_address = "0000:c3:00.0";
    device.throttle_reasons = {"hw_thermal"};
    if (second == 5 || second == 20) frame.xids = {{"0000:c3:00", 79, 0}, {"0000:d4:00", 31, 0}};
    history->add(frame);
  }
  CHECK(history->flush());
  const auto reader = HistoryReader::open(folder.file());
  REQUIRE(reader);
  const auto rows = reader->conditions(0, kStart + 1000);
  double throttled = 0, xids = 0;
  for (const ConditionRow& row : rows) {
    if (row.what == "throttle:hw_thermal") throttled += row.amount;
    if (row.what == "xid:79") xids += row.amount;
    CHECK(row.what != "xid:31");
  }
  CHECK(throttled == doctest::Approx(30));
  CHECK(xids == 2);
}

TEST_CASE("an Xid counts once, in its own minute, and not again for the next daemon") {
  const Folder folder;
  const auto frame_with = [](int second, std::vector<model::XidEvent> xids) {
    Frame frame = frame_at(second, 50);
    frame.snapshot.devices.back().pci_address = "0000:c3:00.0";
    frame.xids = std::move(xids);
    return frame;
  };
  const std::int64_t begin = frame_at(0, 50).snapshot.unix_milliseconds;
  const model::XidEvent by_nvml{"0000:c3:00.0", 79, begin + 300'000};
  const model::XidEvent in_log{"0000:c3:00", 79, begin + 299'000};
  {
    auto history = History::open(folder.file());
    REQUIRE(history);
    history->add(frame_with(0, {}));
    history->add(frame_with(301, {by_nvml}));
    history->add(frame_with(390, {in_log, {"0000:c3:00", 31, begin + 300'000}}));
    CHECK(history->flush());
  }
  {
    auto history = History::open(folder.file());
    REQUIRE(history);
    history->add(frame_with(400, {in_log}));
    history->add(frame_with(401, {in_log, {"0000:c3:00", 79, begin + 400'500}}));
    CHECK(history->flush());
  }
  const auto reader = HistoryReader::open(folder.file());
  REQUIRE(reader);
  std::map<std::string, std::vector<std::pair<std::int64_t, double>>> found;
  for (const ConditionRow& row : reader->conditions(0, kStart + 1000))
    found[row.what].emplace_back(row.from, row.amount);
  const auto minute = [&](std::int64_t seconds) { return (begin / 1000 + seconds) / 60 * 60; };
  using Counts = std::vector<std::pair<std::int64_t, double>>;
  CHECK(found["xid:79"] == Counts{{minute(300), 1}, {minute(400), 1}});
  CHECK(found["xid:31"] == Counts{{minute(300), 1}});
}

TEST_CASE("only the broker's user may read the history, also that of an older version") {
  const Folder folder;
  std::ofstream(folder.file()).close();
  std::filesystem::permissions(folder.file(), std::filesystem::perms(0644));
  const auto history = History::open(folder.file(), [](const std::string&) {});
  REQUIRE(history);
  for (const char* suffix : {"", "-wal", "-shm"})
    CHECK(std::filesystem::status(folder.file() + suffix).permissions() ==
          std::filesystem::perms(0600));
}

TEST_CASE("a file of a version that kept no peaks is read, and written from then on") {
  const Folder folder;
  {
    sqlite3* database = nullptr;
    REQUIRE(::sqlite3_open(folder.file().c_str(), &database) == SQLITE_OK);
    const sqlite::Database closes(database);
    REQUIRE(sqlite::execute(
        database,
        "CREATE TABLE device (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, name TEXT NOT "
        "NULL, number INTEGER NOT NULL); CREATE TABLE chunk (tier INTEGER NOT NULL, device INTEGER "
        "NOT NULL, start INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (tier, device, start)) "
        "WITHOUT ROWID; CREATE TABLE usage (start INTEGER NOT NULL, device TEXT NOT NULL, user "
        "TEXT NOT NULL, job INTEGER NOT NULL, program TEXT NOT NULL, held REAL NOT NULL, used REAL "
        "NOT NULL, known REAL NOT NULL, idle REAL NOT NULL, memory REAL NOT NULL, energy REAL NOT "
        "NULL, PRIMARY KEY (start, device, user, job, program)) WITHOUT ROWID; INSERT INTO usage "
        "VALUES (1699999920, 'GPU-1', 'lin', 7, 'old', 60, 30, 60, 0, 1, 1)"));
  }
  const auto rows_now = [&] {
    const auto reader = HistoryReader::open(folder.file());
    REQUIRE(reader);
    CHECK(reader->conditions(0, kStart + 1000).empty());
    return reader->usage(0, kStart + 1000);
  };
  REQUIRE(rows_now().size() == 1);
  CHECK_FALSE(rows_now()[0].usage.peak_memory_bytes);
  auto history = History::open(folder.file());
  REQUIRE(history);
  for (int second = 0; second < 20; ++second) history->add(frame_at(second, 50));
  CHECK(history->flush());
  const auto rows = rows_now();
  CHECK(rows.size() >= 2);
  CHECK(rows[0].key.program == "old");
}

TEST_CASE("the oldest reading is known, and an empty history has none") {
  const Folder folder;
  auto history = History::open(folder.file());
  REQUIRE(history);
  const auto begin = [&] {
    const auto reader = HistoryReader::open(folder.file());
    REQUIRE(reader);
    return reader->begin();
  };
  CHECK_FALSE(begin());
  for (int second = 5; second < 200; ++second) history->add(frame_at(second, 50));
  CHECK(history->flush());
  CHECK(begin() == kStart + 5);
}
