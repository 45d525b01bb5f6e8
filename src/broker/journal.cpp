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
#include "broker/journal_copy.hpp"
#include "broker/record_sum.hpp"
#include "broker/salvage.hpp"
#include "broker/sqlite_statement.hpp"

namespace berth::broker {
namespace {

/// The format of the journal. Raise the number when an older broker would misread the journal.
/// Format 3 added a revision and a checksum to each record.
constexpr int kFormat = 3;

using Database = std::unique_ptr<sqlite3, decltype(&::sqlite3_close_v2)>;

/// If SQLite's locks or its WAL are unreliable on the folder's file system, the name of that file
/// system (statfs(2), linux/magic.h). If they are reliable: "".
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
  return {
      ErrorCode::kUnavailable, "E0907", text("the journal {} cannot be used: {}", shown, why),
      text("mv {} {}.damaged    then start the broker again; jobs are restored from their files",
           shown, shown)};
}

Error unusable(const std::string& path, const std::string& why, const std::string& hint) {
  return {ErrorCode::kUnavailable, "E0907",
          text("the journal {} cannot be used: {}", printable(path), why), hint};
}

Error unwritable(const std::string& folder, int problem) {
  return unusable(folder, error_words(problem), "ls -ld " + printable(folder));
}

/// The error for a file that SQLite could not open.
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

/// The error for a folder that cannot be created, for example because a service's user has no home
/// folder.
Error not_made(const std::string& folder, int problem) {
  if (problem != EACCES && problem != EPERM && problem != EROFS) return unwritable(folder, problem);
  return {ErrorCode::kUnavailable, "E0907",
          text("the folder {} does not exist and cannot be created for the journal: {}",
               printable(folder), error_words(problem)),
          text("export BERTH_STATE_DIR={}    or another folder that this user can write",
               fmt::format("/var/tmp/berth-{}", ::geteuid()))};
}

Status make_folder(const std::string& folder) {
  for (std::size_t slash = folder.find('/', 1);; slash = folder.find('/', slash + 1)) {
    const std::string part = folder.substr(0, slash);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return not_made(part, errno);
    if (slash == std::string::npos) return Done{};
  }
}

/// Anyone who can write to this folder can make this broker run their commands, because the queue
/// stores its jobs here. In a folder like /var/tmp, another user may have created it first.
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

/// The folder's path with its links resolved, because SQLITE_OPEN_NOFOLLOW rejects links anywhere
/// in a path.
std::string without_links(const std::string& folder) {
  char* const whole = ::realpath(folder.c_str(), nullptr);
  std::string path = whole != nullptr ? whole : folder;
  std::free(whole);
  return path;
}

bool execute(sqlite3* database, const char* sql) {
  return ::sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK;
}

bool set_format(sqlite3* database) {
  return execute(database, ("PRAGMA user_version = " + std::to_string(kFormat)).c_str());
}

bool make_tables(sqlite3* database) {
  return execute(database, "BEGIN IMMEDIATE") && execute(database, kTables) &&
         set_format(database) && execute(database, "COMMIT");
}

std::string_view bytes_of(sqlite3_value* value) {
  const auto* bytes = ::sqlite3_value_blob(value);
  return {static_cast<const char*>(bytes), static_cast<std::size_t>(::sqlite3_value_bytes(value))};
}

/// The SQL function that computes record_sum(kind, key, revision, bytes).
void sum_in_sql(sqlite3_context* context, int /*count*/, sqlite3_value** values) {
  // Read the stored bytes first, because reading a value as a number would make SQLite convert it.
  const std::string kind(bytes_of(values[0])), key(bytes_of(values[1]));
  ::sqlite3_result_int64(
      context, record_sum(kind, key, ::sqlite3_value_int64(values[2]), bytes_of(values[3])));
}

/// Upgrades the tables from formats 1 and 2, which had no revisions and no checksums.
bool upgrade_tables(sqlite3* database) {
  ::sqlite3_create_function_v2(database, "record_sum", 4, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                               nullptr, sum_in_sql, nullptr, nullptr, nullptr);
  const bool done =
      execute(database,
              "BEGIN IMMEDIATE;"
              "CREATE TABLE IF NOT EXISTS launch (id INTEGER PRIMARY KEY, record BLOB NOT NULL);"
              "ALTER TABLE job ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;"
              "ALTER TABLE job ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;"
              "ALTER TABLE launch ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;"
              "ALTER TABLE launch ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;"
              "ALTER TABLE value ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;"
              "ALTER TABLE value ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;"
              "UPDATE job SET revision = 1, "
              "sum = record_sum('job', CAST(id AS TEXT), 1, record);"
              "UPDATE launch SET revision = 1, "
              "sum = record_sum('launch', CAST(id AS TEXT), 1, record);"
              "UPDATE value SET revision = 1, sum = record_sum('value', key, 1, value);") &&
      set_format(database) && execute(database, "COMMIT");
  if (!done) execute(database, "ROLLBACK");
  return done;
}

}  // namespace

struct Journal::Parts {
  std::string file;
  std::int64_t format = 0;    // format of the existing file; 0: there is no file yet
  std::int64_t revision = 0;  // revision of the last written record
  Database database{nullptr, &::sqlite3_close_v2};
  Statement begin, commit, roll_back, write, remove, get, set, keep_launch, launch, remove_launch;
  Descriptor wal;
  std::optional<Salvage> salvaged;
  bool is_damaged = false;
  std::string copies;                 // folder of the journal's daily copies
  std::unique_ptr<JournalCopy> copy;  // a copy in progress
  std::string copied_day;             // the last day on which a copy was made or failed

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
    // Each change writes whole pages, so keep them small. Overwrite deleted rows, so that a salvage
    // does not mistake an old version of a record for the newest one.
    if (!execute(to, "PRAGMA page_size = 1024") || !execute(to, "PRAGMA journal_mode = WAL") ||
        !execute(to, "PRAGMA synchronous = NORMAL") || !execute(to, "PRAGMA secure_delete = ON") ||
        !execute(to, "PRAGMA wal_autocheckpoint = 0") || (format == 0 && !make_tables(to)))
      return not_opened(file, to);
    if (format != 0 && format < kFormat) {
      const std::string copy_file = copies + "/before-format-" + std::to_string(kFormat) + ".db";
      if (!copy_journal(to, copy_file))
        return unusable(
            file, text("it must be copied before its format is upgraded, but the copy failed"),
            "df -h " + printable(file));
      if (!upgrade_tables(to)) return not_opened(file, to);
    }
    begin = Statement(to, "BEGIN IMMEDIATE");
    commit = Statement(to, "COMMIT");
    roll_back = Statement(to, "ROLLBACK");
    write = Statement(to, "INSERT OR REPLACE INTO job VALUES (?, ?, ?, ?)");
    remove = Statement(to, "DELETE FROM job WHERE id = ?");
    get = Statement(to, "SELECT value FROM value WHERE key = ?");
    set = Statement(to, "INSERT OR REPLACE INTO value VALUES (?, ?, ?, ?)");
    keep_launch = Statement(to, "INSERT OR REPLACE INTO launch VALUES (?, ?, ?, ?)");
    launch = Statement(to, "SELECT record, revision, sum FROM launch WHERE id = ?");
    remove_launch = Statement(to, "DELETE FROM launch WHERE id = ?");
    Statement latest(to,
                     "SELECT max((SELECT ifnull(max(revision), 0) FROM job), "
                     "(SELECT ifnull(max(revision), 0) FROM launch), "
                     "(SELECT ifnull(max(revision), 0) FROM value))");
    if (!begin || !commit || !roll_back || !write || !remove || !get || !set || !keep_launch ||
        !launch || !remove_launch || !latest || latest.step() != SQLITE_ROW)
      return damaged(file, ::sqlite3_errmsg(to));
    revision = latest.number(0);
    return Done{};
  }

  /// Binds the last three columns of a row and writes the row.
  bool put(Statement& to, std::string_view kind, std::string_view key, std::string_view bytes,
           bool is_text) {
    ++revision;
    if (is_text)
      to.bind(2, bytes);
    else
      to.bind_bytes(2, bytes);
    to.bind(3, revision);
    to.bind(4, record_sum(kind, key, revision, bytes));
    return to.run();
  }

  /// Opens FOLDER/journal.db. On failure, is_damaged says whether a salvage may help.
  Status open(const std::string& folder) {
    file = folder + "/journal.db";
    copies = folder + "/copies";
    sqlite3* opened = nullptr;
    const int code = ::sqlite3_open_v2(
        file.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW,
        nullptr);
    database.reset(opened);
    if (code != SQLITE_OK) return not_opened(file, opened);
    move_wal_at_the_end(false);
    ::chmod(file.c_str(), 0600);
    if (auto fits = check_format(); !fits) return tell_damage(std::move(fits));
    if (auto ready = prepare(); !ready) return tell_damage(std::move(ready));
    wal.reset(::open((file + "-wal").c_str(), O_RDONLY | O_CLOEXEC));
    return Done{};
  }

  Status tell_damage(Status failed) {
    switch (::sqlite3_errcode(database.get())) {
      case SQLITE_CORRUPT:
      case SQLITE_NOTADB:
      case SQLITE_ERROR:  // a table is missing
        is_damaged = format == 0 || format == kFormat;
        break;
      default:
        break;
    }
    return failed;
  }

  /// Whether SQLite finds no damage in the database, and every record matches its checksum.
  bool is_sound() {
    sqlite3* const of = database.get();
    if (Statement check(of, "PRAGMA quick_check(1)"); check.only_text() != "ok") return false;
    for (const auto& [kind, sql] : {std::pair("job", "SELECT id, record, revision, sum FROM job"),
                                    {"launch", "SELECT id, record, revision, sum FROM launch"},
                                    {"value", "SELECT key, value, revision, sum FROM value"}}) {
      Statement rows(of, sql);
      int code = SQLITE_ERROR;
      while (rows && (code = rows.step()) == SQLITE_ROW) {
        const std::string key(rows.text(0));  // a job id in decimal, or the name of a value
        if (record_sum(kind, key, rows.number(2), rows.text(1)) != rows.number(3)) return false;
      }
      if (code != SQLITE_DONE) return false;
    }
    return true;
  }

  /// Call it before writing. Refuses the journal of a newer Berth, which must stay unchanged.
  Status check_format() {
    sqlite3* const to = database.get();
    // Exclusive mode: one broker, no shared-memory file, and the lock is taken only once.
    if (!execute(to, "PRAGMA locking_mode = EXCLUSIVE")) return not_opened(file, to);
    Statement ask(to, "PRAGMA user_version");
    if (!ask || ask.step() != SQLITE_ROW) return not_opened(file, to);
    format = ask.number(0);
    if (format <= kFormat) return Done{};
    return Error{
        ErrorCode::kUnavailable, "E0907",
        text("the journal {} was written by a newer Berth (format {}, this version supports {})",
             printable(file), format, kFormat),
        "berth --version"};
  }

  /// Sets whether closing the database moves the changes in the WAL into the database file. This is
  /// only safe if the whole WAL could be read.
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
  const std::string whole = without_links(folder), file = whole + "/journal.db";
  const std::string copies = whole + "/copies";
  finish_salvage(file);
  std::optional<Salvage> salvaged;
  const auto salvage = [&]() -> Status {
    auto done = salvage_journal(file, copies, kFormat);
    if (!done) return std::move(done).error();
    salvaged = *std::move(done);
    return Done{};
  };
  if (needs_salvage(file, copies, kFormat))
    if (auto done = salvage(); !done) return std::move(done).error();
  for (;;) {
    auto parts = std::make_unique<Parts>();
    Status opened = parts->open(whole);
    if ((opened && parts->is_sound()) || (!opened && !parts->is_damaged) || salvaged) {
      if (!opened) return std::move(opened).error();
      parts->salvaged = std::move(salvaged);
      return Journal(std::move(parts));
    }
    parts.reset();  // releases SQLite's locks
    if (auto done = salvage(); !done) return std::move(done).error();
  }
}

const std::optional<Salvage>& Journal::salvaged() const {
  return parts_->salvaged;
}

Result<std::vector<model::Job>> Journal::jobs(std::vector<model::JobId>* unreadable) const {
  Statement all(parts_->database.get(), "SELECT id, record FROM job ORDER BY id");
  std::vector<model::Job> jobs;
  int code = SQLITE_DONE;
  while (all && (code = all.step()) == SQLITE_ROW) {
    if (auto job = job_of(all.text(1)))
      jobs.push_back(*std::move(job));
    else if (unreadable != nullptr)
      unreadable->push_back(static_cast<model::JobId>(all.number(0)));
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
    good = good && parts_->put(parts_->write, "job", std::to_string(job->id), record, true);
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
  const bool good = parts_->put(parts_->keep_launch, "launch", std::to_string(id), record, false);
  return good ? Status(Done{}) : Status(parts_->failed());
}

std::optional<std::string> Journal::launch(model::JobId id) const {
  Statement& ask = parts_->launch;
  ask.bind(1, static_cast<std::int64_t>(id));
  std::optional<std::string> found;
  if (ask.step() == SQLITE_ROW &&
      record_sum("launch", std::to_string(id), ask.number(1), ask.text(0)) == ask.number(2))
    found = std::string(ask.text(0));
  ask.reset();
  return found;
}

std::optional<std::string> Journal::value(std::string_view key) const {
  parts_->get.bind(1, key);
  return parts_->get.only_text();
}

Status Journal::set_value(std::string_view key, std::string_view value) {
  parts_->set.bind(1, key);
  const bool good = parts_->put(parts_->set, "value", key, value, true);
  return good ? Status(Done{}) : Status(parts_->failed());
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

void Journal::keep_daily_copy(std::int64_t unix_milliseconds) {
  constexpr int kPagesAtOnce = 1024;
  constexpr std::size_t kKept = 3;
  Parts& parts = *parts_;
  if (parts.copy) {
    const auto state = parts.copy->go_on(kPagesAtOnce);
    if (state == JournalCopy::State::kGoesOn) return;
    parts.copy.reset();
    if (state == JournalCopy::State::kDone) remove_old_copies(parts.copies, kKept);
    return;
  }
  const std::string day = day_of(unix_milliseconds);
  if (day == parts.copied_day) return;
  parts.copied_day = day;
  const std::string file = parts.copies + "/journal-" + day + ".db";
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0)
    parts.copy = JournalCopy::begin(parts.database.get(), file);
}

}  // namespace berth::broker
