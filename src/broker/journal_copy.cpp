#include "broker/journal_copy.hpp"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <vector>

#include "base/file.hpp"

namespace berth::broker {

std::unique_ptr<JournalCopy> JournalCopy::begin(sqlite3* from, const std::string& file) {
  const std::string folder = file.substr(0, file.rfind('/'));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return nullptr;
  const std::string draft = file + ".new";
  ::unlink(draft.c_str());
  sqlite3* to = nullptr;
  const int code =
      ::sqlite3_open_v2(draft.c_str(), &to,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW, nullptr);
  sqlite3_backup* backup =
      code == SQLITE_OK ? ::sqlite3_backup_init(to, "main", from, "main") : nullptr;
  if (backup == nullptr) {
    ::sqlite3_close_v2(to);
    ::unlink(draft.c_str());
    return nullptr;
  }
  ::chmod(draft.c_str(), 0600);
  return std::unique_ptr<JournalCopy>(new JournalCopy(to, backup, file));
}

JournalCopy::~JournalCopy() {
  if (backup_ == nullptr) return;
  close();
  ::unlink((file_ + ".new").c_str());
}

void JournalCopy::close() {
  ::sqlite3_backup_finish(backup_);
  ::sqlite3_close_v2(to_);
  backup_ = nullptr;
}

JournalCopy::State JournalCopy::go_on(int pages) {
  const int code = ::sqlite3_backup_step(backup_, pages);
  if (code == SQLITE_OK) return State::kGoesOn;
  close();
  const std::string draft = file_ + ".new";
  if (code == SQLITE_DONE && ::rename(draft.c_str(), file_.c_str()) == 0) return State::kDone;
  ::unlink(draft.c_str());
  return State::kFailed;
}

bool copy_journal(sqlite3* from, const std::string& file) {
  const auto copy = JournalCopy::begin(from, file);
  return copy && copy->go_on(-1) == JournalCopy::State::kDone;
}

std::string day_of(std::int64_t unix_milliseconds) {
  const std::time_t seconds = unix_milliseconds / 1000;
  std::tm utc = {};
  std::array<char, 32> out{};
  if (::gmtime_r(&seconds, &utc) == nullptr) return "unknown";
  const std::size_t size = std::strftime(out.data(), out.size(), "%Y-%m-%d", &utc);
  return {out.data(), size};
}

void remove_old_copies(const std::string& folder, std::size_t keep) {
  std::vector<std::string> names = list_folder(folder);
  std::erase_if(names, [](const std::string& name) {
    return !name.starts_with("journal-") || !name.ends_with(".db");
  });
  std::sort(names.begin(), names.end());
  for (std::size_t i = 0; i + keep < names.size(); ++i) ::unlink((folder + "/" + names[i]).c_str());
}

}  // namespace berth::broker
