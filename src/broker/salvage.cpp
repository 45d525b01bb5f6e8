#include "broker/salvage.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "broker/journal_pages.hpp"
#include "broker/sqlite_statement.hpp"

namespace berth::broker {
namespace {

using model::JobId;

constexpr std::size_t kMostBytes = std::size_t{1} << 30U;
constexpr JobId kHighestNumber = 1'000'000'000'000;
constexpr std::string_view kMagic("SQLite format 3\0", 16);

Error cannot(const std::string& file, const std::string& why) {
  const std::string shown = printable(file);
  return {ErrorCode::kUnavailable, "E0907",
          text("the journal {} is damaged, and cannot be repaired: {}", shown, why),
          "df -h " + shown};
}

/// Opens the file and locks the bytes that SQLite's writers lock (from PENDING_BYTE on). Creates
/// the file if it is missing.
Result<Descriptor> locked(const std::string& file) {
  Descriptor opened(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!opened) return cannot(file, error_words(errno));
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = 0x40000000;
  lock.l_len = 512;
  if (::fcntl(opened.get(), F_OFD_SETLK, &lock) != 0)
    return Error{ErrorCode::kUnavailable, "E0906",
                 text("another broker has the journal {}", printable(file)), "berth jobs"};
  return opened;
}

bool has_bytes(const std::string& file) {
  struct stat status = {};
  return ::stat(file.c_str(), &status) == 0 && status.st_size > 0;
}

std::string bytes_of(const std::string& file) {
  return slurp(file, kMostBytes).value_or("");
}

struct Files {
  std::string database, wal_bytes;
  Wal wal;
  std::uint32_t page_size = 0;
};

Files read_files(const std::string& file) {
  Files files{bytes_of(file), bytes_of(file + "-wal"), {}, 0};
  files.wal = read_wal(files.wal_bytes, page_size_of(files.database));
  files.page_size = page_size_of(files.database);
  if (files.page_size == 0) files.page_size = files.wal.page_size;
  if (files.page_size == 0) files.page_size = 1024;
  return files;
}

/// Whether the image is a database whose PRAGMA user_version is not `format`.
bool is_of_another_format(std::string_view image, std::int64_t format) {
  constexpr std::size_t kUserVersion = 60;
  if (image.size() < 100 || !image.starts_with(kMagic)) return false;
  std::int64_t version = 0;
  for (std::size_t i = 0; i < 4; ++i)
    version = version * 256 + static_cast<std::uint8_t>(image[kUserVersion + i]);
  return version != format;
}

/// Keeps the newest good version of each record.
class Collection {
 public:
  void take(std::vector<StoredRecord> records, bool is_newest) {
    for (StoredRecord& one : records) {
      std::pair name(one.kind, one.key);
      if (!one.is_good) {
        if (is_newest && one.kind.empty()) ++nameless_;
        if (is_newest && one.kind == "job") damaged_.insert(number_of(one.key));
        continue;
      }
      const auto found = best_.find(name);
      if (found != best_.end() && found->second.record.revision >= one.revision) continue;
      const bool is_newest_of_it = is_newest && one.is_live;
      best_.insert_or_assign(std::move(name), Best{std::move(one), is_newest_of_it});
    }
  }

  [[nodiscard]] bool is_empty() const { return best_.empty(); }
  [[nodiscard]] bool write_to(sqlite3* database) const {
    std::map<std::string, Statement> into;
    for (const char* kind : {"job", "launch", "value"})
      into.emplace(
          kind, Statement(database,
                          (std::string("INSERT INTO ") + kind + " VALUES (?, ?, ?, ?)").c_str()));
    for (const auto& [name, best] : best_) {
      Statement& row = into.at(name.first);
      if (!row) return false;
      if (name.first == "value")
        row.bind(1, std::string_view(name.second));
      else
        row.bind(1, static_cast<std::int64_t>(number_of(name.second)));
      if (name.first == "launch")
        row.bind_bytes(2, best.record.bytes);
      else
        row.bind(2, std::string_view(best.record.bytes));
      row.bind(3, best.record.revision);
      row.bind(4, best.record.sum);
      if (!row.run()) return false;
    }
    return true;
  }

  void tell(Salvage& into) const {
    for (const auto& [name, best] : best_) {
      if (name.first != "job") continue;
      ++into.jobs;
      const JobId id = number_of(name.second);
      if (!best.is_newest || damaged_.contains(id)) into.stale.push_back(id);
    }
    for (const JobId id : damaged_)
      if (id > 0 && id <= kHighestNumber && !best_.contains({"job", std::to_string(id)}))
        into.lost.push_back(id);
    into.nameless = nameless_;
    std::sort(into.stale.begin(), into.stale.end());
  }

 private:
  struct Best {
    StoredRecord record;
    bool is_newest = false;
  };
  static JobId number_of(const std::string& key) {
    return static_cast<JobId>(std::max<std::int64_t>(0, to_number(key).value_or(0)));
  }
  std::map<std::pair<std::string, std::string>, Best> best_;
  std::set<JobId> damaged_;
  std::size_t nameless_ = 0;
};

/// The newest daily copy in this folder; "" if there is none.
std::string newest_copy(const std::string& copies) {
  std::vector<std::string> names = list_folder(copies);
  std::erase_if(names, [](const std::string& name) {
    return !name.starts_with("journal-") || !name.ends_with(".db");
  });
  const auto newest = std::max_element(names.begin(), names.end());
  return newest == names.end() ? "" : copies + "/" + *newest;
}

/// Writes a complete journal to one file, which appears only after it is on the disk.
bool write_new(const std::string& file, const Collection& records, std::int64_t format) {
  const std::string draft = file + ".new";
  ::unlink(draft.c_str());
  sqlite3* opened = nullptr;
  const int code =
      ::sqlite3_open_v2(draft.c_str(), &opened,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW, nullptr);
  std::unique_ptr<sqlite3, decltype(&::sqlite3_close_v2)> database(opened, &::sqlite3_close_v2);
  const auto execute = [&](const std::string& sql) {
    return ::sqlite3_exec(opened, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  };
  ::chmod(draft.c_str(), 0600);
  const bool done = code == SQLITE_OK && execute("PRAGMA page_size = 1024") &&
                    execute("PRAGMA journal_mode = OFF") && execute("BEGIN") && execute(kTables) &&
                    records.write_to(opened) &&
                    execute("PRAGMA user_version = " + std::to_string(format)) && execute("COMMIT");
  database.reset();
  const Descriptor written(::open(draft.c_str(), O_RDONLY | O_CLOEXEC));
  if (done && written && ::fsync(written.get()) == 0 && ::rename(draft.c_str(), file.c_str()) == 0)
    return true;
  ::unlink(draft.c_str());
  return false;
}

/// Creates hard links to the unchanged files in a new folder STATE/damaged-2026-11-23T19-40-11.
Result<std::string> set_aside(const std::string& file) {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  std::array<char, 32> when{};
  if (::gmtime_r(&now, &utc) == nullptr ||
      std::strftime(when.data(), when.size(), "%Y-%m-%dT%H-%M-%S", &utc) == 0)
    return cannot(file, error_words(EINVAL));
  std::string folder = file.substr(0, file.rfind('/')) + "/damaged-" + when.data();
  // If two journals are damaged within one second, each needs its own folder.
  const std::string first = folder;
  for (int number = 2; ::mkdir(folder.c_str(), 0700) != 0; ++number) {
    if (errno != EEXIST || number > 1000) return cannot(file, error_words(errno));
    folder = first + "-" + std::to_string(number);
  }
  for (const char* name : {"/journal.db", "/journal.db-wal"}) {
    const std::string from = file.substr(0, file.rfind('/')) + name;
    if (::link(from.c_str(), (folder + name).c_str()) != 0 && errno != ENOENT)
      return cannot(file, error_words(errno));
  }
  return folder;
}

std::string decided(const std::string& file) {
  return file + ".salvaged";
}

}  // namespace

bool needs_salvage(const std::string& file, const std::string& copies, std::int64_t format) {
  if (!has_bytes(file + "-wal")) return !has_bytes(file) && !newest_copy(copies).empty();
  const auto lock = locked(file);
  if (!lock) return false;
  const Files files = read_files(file);
  // If the database is missing or empty, SQLite would delete its WAL and lose these records.
  const bool is_passed_over =
      files.wal.is_damaged || (files.database.empty() && !files.wal.frames.empty());
  return is_passed_over &&
         !is_of_another_format(
             with_frames(files.database, files.wal_bytes, files.wal, Frames::kAll), format);
}

void finish_salvage(const std::string& file) {
  if (::access(decided(file).c_str(), F_OK) != 0) return;
  // Delete the old WAL before renaming, because SQLite would apply it to the new database.
  ::unlink((file + "-wal").c_str());
  static_cast<void>(::rename(decided(file).c_str(), file.c_str()));
}

Result<Salvage> salvage_journal(const std::string& file, const std::string& copies,
                                std::int64_t format) {
  const auto lock = locked(file);
  if (!lock) return lock.error();
  const Files files = read_files(file);
  Collection records;
  // With all frames, the database has the newest version of each record. If that version is
  // damaged, an older version is better than none. So records are also taken from the database
  // without the damaged frames, and from the database with the frames before the first damaged one.
  for (const auto& [which, is_newest] :
       {std::pair(Frames::kAll, true), {Frames::kGood, false}, {Frames::kReadable, false}}) {
    const std::string image = with_frames(files.database, files.wal_bytes, files.wal, which);
    // A database has no format before its first transaction, and the frames that SQLite reads may
    // end before that transaction.
    if (is_of_another_format(image, format)) {
      if (which == Frames::kAll) return cannot(file, text("it has the format of another version"));
      continue;
    }
    records.take(records_in(image, files.page_size), is_newest);
  }
  // Without the database, only the latest changes are left, in the WAL. So use the newest copy as
  // well.
  if (records.is_empty() || files.database.empty())
    if (const std::string copy = bytes_of(newest_copy(copies)); !is_of_another_format(copy, format))
      records.take(records_in(copy, page_size_of(copy)), false);
  Result<std::string> folder = std::string();
  if (!files.database.empty() || !files.wal_bytes.empty()) folder = set_aside(file);
  if (!folder) return std::move(folder).error();
  if (!write_new(decided(file), records, format))
    return cannot(file, text("a new journal cannot be written next to it"));
  finish_salvage(file);
  Salvage done;
  done.folder = *std::move(folder);
  records.tell(done);
  return done;
}

}  // namespace berth::broker
