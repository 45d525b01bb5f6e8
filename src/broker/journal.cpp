#include "broker/journal.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "broker/job_record.hpp"

namespace berth::broker {
namespace {

/// Raised when an older broker would misread what is there.
constexpr int kFormat = 2;

using Database = std::unique_ptr<sqlite3, decltype(&::sqlite3_close_v2)>;

/// A prepared statement, kept for the journal's life: preparing costs more than the row.
class Statement {
 public:
  Statement() = default;
  Statement(sqlite3* database, const char* sql) {
    ::sqlite3_prepare_v3(database, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr);
  }
  Statement(Statement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
  Statement& operator=(Statement&& other) noexcept {
    std::swap(statement_, other.statement_);
    return *this;
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { ::sqlite3_finalize(statement_); }

  explicit operator bool() const { return statement_ != nullptr; }
  void bind(int at, std::int64_t number) { ::sqlite3_bind_int64(statement_, at, number); }
  /// The bytes must live until the next reset().
  void bind(int at, std::string_view bytes) {
    ::sqlite3_bind_text(statement_, at, bytes.data(), static_cast<int>(bytes.size()),
                        SQLITE_STATIC);
  }
  void bind_bytes(int at, std::string_view bytes) {
    ::sqlite3_bind_blob(statement_, at, bytes.data(), static_cast<int>(bytes.size()),
                        SQLITE_STATIC);
  }
  int step() { return ::sqlite3_step(statement_); }
  void reset() { ::sqlite3_reset(statement_); }
  /// Steps once for its effect.
  bool run() {
    const int code = step();
    reset();
    return code == SQLITE_DONE || code == SQLITE_ROW;
  }
  /// Of the first row's first column; nullopt: there is no row.
  std::optional<std::string> only_text() {
    std::optional<std::string> found;
    if (step() == SQLITE_ROW) found = std::string(text(0));
    reset();
    return found;
  }
  [[nodiscard]] std::string_view text(int column) const {
    const auto* bytes = ::sqlite3_column_blob(statement_, column);
    return {static_cast<const char*>(bytes),
            static_cast<std::size_t>(::sqlite3_column_bytes(statement_, column))};
  }
  [[nodiscard]] std::int64_t number(int column) const {
    return ::sqlite3_column_int64(statement_, column);
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

/// File systems on which a lock or a WAL cannot be trusted (statfs(2), linux/magic.h).
std::string_view network_file_system(const std::string& folder) {
  struct Kind {
    std::uint32_t magic;
    std::string_view name;
  };
  constexpr std::array<Kind, 9> kKinds{{{0x6969, "NFS"},
                                        {0xff534d42, "CIFS"},
                                        {0xfe534d42, "SMB"},
                                        {0x0bd00bd0, "Lustre"},
                                        {0x00c36400, "Ceph"},
                                        {0x47504653, "GPFS"},
                                        {0x19830326, "BeeGFS"},
                                        {0x01021997, "9P"},
                                        {0x5346414f, "AFS"}}};
  struct statfs status = {};
  if (::statfs(folder.c_str(), &status) != 0) return "";
  for (const Kind& one : kKinds)
    if (static_cast<std::uint32_t>(status.f_type) == one.magic) return one.name;
  return "";
}

Error damaged(const std::string& file, const std::string& why) {
  const std::string shown = printable(file);
  return {ErrorCode::kUnavailable, "E0907", text("the journal {} cannot be used: {}", shown, why),
          text("mv {} {}.damaged    then start again; jobs that run are then unknown to Berth",
               shown, shown)};
}

Error unusable(const std::string& path, const std::string& why, const std::string& hint) {
  return {ErrorCode::kUnavailable, "E0907",
          text("the journal {} cannot be used: {}", printable(path), why), hint};
}

Error unwritable(const std::string& folder, int problem) {
  return unusable(folder, error_words(problem), "ls -ld " + printable(folder));
}

/// What SQLite found wrong, when nothing is promised yet.
Error not_opened(const std::string& file, sqlite3* database) {
  const std::string shown = printable(file);
  const std::string why = ::sqlite3_errmsg(database);
  switch (::sqlite3_errcode(database)) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kUnavailable, "E0906", text("another broker has the journal {}", shown),
              "berth jobs"};
    case SQLITE_FULL:
      return unusable(file, why, "df -h " + shown);
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
    case SQLITE_PERM:
      return unusable(file, why, "ls -l " + shown);
    default:
      return damaged(file, why);
  }
}

Status make_folder(const std::string& folder) {
  for (std::size_t slash = folder.find('/', 1);; slash = folder.find('/', slash + 1)) {
    const std::string part = folder.substr(0, slash);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return unwritable(part, errno);
    if (slash == std::string::npos) return Done{};
  }
}

/// Whoever may write there decides what is run in our name: the queue keeps its jobs beside the
/// journal. In a folder like /var/tmp anybody can have made it before us.
Status check_folder(const std::string& folder) {
  struct stat link = {};
  struct stat status = {};
  if (::lstat(folder.c_str(), &link) != 0 || ::stat(folder.c_str(), &status) != 0)
    return unwritable(folder, errno);
  const std::string shown = printable(folder);
  if (!S_ISDIR(status.st_mode)) return unwritable(folder, ENOTDIR);
  for (const uid_t owner : {status.st_uid, link.st_uid})
    if (owner != ::geteuid() && (owner != 0 || owner == status.st_uid))
      return unusable(folder, text("it belongs to another user (uid {})", owner),
                      "ls -ld " + shown);
  if ((status.st_mode & 022) != 0)
    return unusable(folder, text("others can write to it"), "chmod go-w " + shown);
  return Done{};
}

/// SQLite follows no link at all where it is told to follow none to the file.
std::string without_links(const std::string& folder) {
  char* const whole = ::realpath(folder.c_str(), nullptr);
  std::string path = whole != nullptr ? whole : folder;
  std::free(whole);
  return path;
}

bool execute(sqlite3* database, const char* sql) {
  return ::sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK;
}

}  // namespace

struct Journal::Parts {
  std::string file;
  std::int64_t format = 0;  // of what was there; 0: nothing
  Database database{nullptr, &::sqlite3_close_v2};
  Statement begin, commit, roll_back, write, remove, get, set, keep_launch, launch, remove_launch;
  Descriptor wal;

  [[nodiscard]] Error failed() const {
    const int code = ::sqlite3_errcode(database.get());
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
      return damaged(file, ::sqlite3_errmsg(database.get()));
    const bool is_full = code == SQLITE_FULL;
    return {ErrorCode::kUnavailable, "E0908",
            text("the journal {} cannot be written: {}", printable(file),
                 ::sqlite3_errmsg(database.get())),
            is_full ? "df -h " + printable(file) : "ls -l " + printable(file)};
  }

  Status prepare() {
    sqlite3* const to = database.get();
    // A change writes whole pages: small ones.
    if (!execute(to, "PRAGMA page_size = 1024") || !execute(to, "PRAGMA journal_mode = WAL") ||
        !execute(to, "PRAGMA synchronous = NORMAL") ||
        !execute(to, "PRAGMA wal_autocheckpoint = 0") ||
        !execute(to,
                 "CREATE TABLE IF NOT EXISTS job (id INTEGER PRIMARY KEY, record TEXT NOT NULL)") ||
        !execute(to,
                 "CREATE TABLE IF NOT EXISTS value (key TEXT PRIMARY KEY, value TEXT NOT NULL)") ||
        !execute(
            to,
            "CREATE TABLE IF NOT EXISTS launch (id INTEGER PRIMARY KEY, record BLOB NOT NULL)") ||
        (format < kFormat &&
         !execute(to, ("PRAGMA user_version = " + std::to_string(kFormat)).c_str())))
      return not_opened(file, to);
    begin = Statement(to, "BEGIN IMMEDIATE");
    commit = Statement(to, "COMMIT");
    roll_back = Statement(to, "ROLLBACK");
    write = Statement(to, "INSERT OR REPLACE INTO job VALUES (?, ?)");
    remove = Statement(to, "DELETE FROM job WHERE id = ?");
    get = Statement(to, "SELECT value FROM value WHERE key = ?");
    set = Statement(to, "INSERT OR REPLACE INTO value VALUES (?, ?)");
    keep_launch = Statement(to, "INSERT OR REPLACE INTO launch VALUES (?, ?)");
    launch = Statement(to, "SELECT record FROM launch WHERE id = ?");
    remove_launch = Statement(to, "DELETE FROM launch WHERE id = ?");
    if (!begin || !commit || !roll_back || !write || !remove || !get || !set || !keep_launch ||
        !launch || !remove_launch)
      return damaged(file, ::sqlite3_errmsg(to));
    return Done{};
  }

  /// Before anything is written: what a newer one keeps there stays as it is.
  Status check_format() {
    sqlite3* const to = database.get();
    // Exclusive: one broker, no shared memory file, and no lock to take a second time.
    if (!execute(to, "PRAGMA locking_mode = EXCLUSIVE")) return not_opened(file, to);
    Statement ask(to, "PRAGMA user_version");
    if (!ask || ask.step() != SQLITE_ROW) return not_opened(file, to);
    format = ask.number(0);
    if (format <= kFormat) return Done{};
    return Error{ErrorCode::kUnavailable, "E0907",
                 text("the journal {} is of a newer Berth (format {}, this one knows {})",
                      printable(file), format, kFormat),
                 "berth --version"};
  }

  /// Moved into the database when the broker ends; never before all of it was read.
  void move_wal_at_the_end(bool move) {
    ::sqlite3_db_config(database.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, move ? 0 : 1, nullptr);
  }
};

Journal::Journal(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Journal::Journal(Journal&&) noexcept = default;
Journal& Journal::operator=(Journal&&) noexcept = default;
Journal::~Journal() = default;

Result<Journal> Journal::open(const std::string& folder) {
  if (auto made = make_folder(folder); !made) return std::move(made).error();
  if (auto checked = check_folder(folder); !checked) return std::move(checked).error();
  if (const auto kind = network_file_system(folder); !kind.empty())
    return Error{ErrorCode::kUnavailable, "E0905",
                 text("{} is on a network file system ({}): locks there cannot be trusted",
                      printable(folder), kind),
                 "export XDG_STATE_HOME=/var/tmp/$USER"};
  auto parts = std::make_unique<Parts>();
  parts->file = without_links(folder) + "/journal.db";
  sqlite3* opened = nullptr;
  const int code =
      ::sqlite3_open_v2(parts->file.c_str(), &opened,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW, nullptr);
  parts->database.reset(opened);
  if (code != SQLITE_OK) return not_opened(parts->file, opened);
  parts->move_wal_at_the_end(false);
  ::chmod(parts->file.c_str(), 0600);
  if (auto fits = parts->check_format(); !fits) return std::move(fits).error();
  if (auto ready = parts->prepare(); !ready) return std::move(ready).error();
  parts->wal.reset(::open((parts->file + "-wal").c_str(), O_RDONLY | O_CLOEXEC));
  return Journal(std::move(parts));
}

Result<std::vector<model::Job>> Journal::jobs() const {
  Statement all(parts_->database.get(), "SELECT record FROM job ORDER BY id");
  std::vector<model::Job> jobs;
  int code = SQLITE_DONE;
  while (all && (code = all.step()) == SQLITE_ROW) {
    auto job = job_of(all.text(0));
    if (!job) return damaged(parts_->file, job.error().message);
    jobs.push_back(*std::move(job));
  }
  if (!all || code != SQLITE_DONE) return not_opened(parts_->file, parts_->database.get());
  parts_->move_wal_at_the_end(true);
  return jobs;
}

Status Journal::write(const std::vector<const model::Job*>& changed,
                      const std::vector<model::JobId>& gone,
                      const std::map<std::string, std::string>& values) {
  bool good = parts_->begin.run();
  for (const model::Job* job : changed) {
    const std::string record = record_of(*job);
    parts_->write.bind(1, static_cast<std::int64_t>(job->id));
    parts_->write.bind(2, std::string_view(record));
    good = good && parts_->write.run();
  }
  for (const model::JobId id : gone) {
    for (Statement* one : {&parts_->remove, &parts_->remove_launch}) {
      one->bind(1, static_cast<std::int64_t>(id));
      good = good && one->run();
    }
  }
  for (const auto& [key, value] : values) good = good && set_value(key, value);
  if (good && parts_->commit.run()) return Done{};
  Error why = parts_->failed();
  static_cast<void>(parts_->roll_back.run());
  return why;
}

Status Journal::keep_launch(model::JobId id, std::string_view record) {
  parts_->keep_launch.bind(1, static_cast<std::int64_t>(id));
  parts_->keep_launch.bind_bytes(2, record);
  return parts_->keep_launch.run() ? Status(Done{}) : Status(parts_->failed());
}

std::optional<std::string> Journal::launch(model::JobId id) const {
  parts_->launch.bind(1, static_cast<std::int64_t>(id));
  return parts_->launch.only_text();
}

std::optional<std::string> Journal::value(std::string_view key) const {
  parts_->get.bind(1, key);
  return parts_->get.only_text();
}

Status Journal::set_value(std::string_view key, std::string_view value) {
  parts_->set.bind(1, key);
  parts_->set.bind(2, value);
  return parts_->set.run() ? Status(Done{}) : Status(parts_->failed());
}

void Journal::sync() const {
  if (parts_->wal) ::fdatasync(parts_->wal.get());
}

void Journal::tidy(bool is_quiet) {
  const off_t grown = is_quiet ? 4 << 20 : 64 << 20;
  struct stat status = {};
  if (::fstat(parts_->wal.get(), &status) != 0 || status.st_size < grown) return;
  ::sqlite3_wal_checkpoint_v2(parts_->database.get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr,
                              nullptr);
}

}  // namespace berth::broker
