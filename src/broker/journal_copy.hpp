// JournalCopy: copies the journal in steps while it is in use, with SQLite's backup API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

struct sqlite3;
struct sqlite3_backup;

namespace berth::broker {

class JournalCopy {
 public:
  /// Starts a copy to `file`, which appears only when it is complete. Creates the folder of `file`.
  /// nullptr: the copy cannot be created.
  [[nodiscard]] static std::unique_ptr<JournalCopy> begin(sqlite3* from, const std::string& file);
  JournalCopy(const JournalCopy&) = delete;
  JournalCopy& operator=(const JournalCopy&) = delete;
  ~JournalCopy();

  enum class State { kGoesOn, kDone, kFailed };
  /// Copies up to `pages` more pages; -1: all that remain.
  [[nodiscard]] State go_on(int pages);

 private:
  JournalCopy(sqlite3* to, sqlite3_backup* backup, std::string file)
      : to_(to), backup_(backup), file_(std::move(file)) {}
  void close();

  sqlite3* to_;
  sqlite3_backup* backup_;
  std::string file_;
};

/// Copies everything in one call. False: the file cannot be written.
[[nodiscard]] bool copy_journal(sqlite3* from, const std::string& file);

/// The day of this time in UTC, for example "2026-11-23".
[[nodiscard]] std::string day_of(std::int64_t unix_milliseconds);

/// Deletes the oldest daily copies in the folder, so that `keep` remain.
void remove_old_copies(const std::string& folder, std::size_t keep);

}  // namespace berth::broker
