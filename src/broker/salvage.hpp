// Salvage: reads a damaged journal record by record and builds a new one from the good records. The
// damaged files are kept in a separate folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/job.hpp"

namespace berth::broker {

struct Salvage {
  std::string folder;               // folder with the damaged files; "" if there were none
  std::size_t jobs = 0;             // number of saved jobs
  std::vector<model::JobId> stale;  // saved, but the newest state was lost; ascending
  std::vector<model::JobId> lost;   // not saved, because their records cannot be read; ascending
  std::size_t nameless = 0;         // number of records without a readable key
};

/// Whether SQLite would silently ignore records: part of the WAL is damaged, or the database is
/// missing or empty although a WAL or a copy exists. False if the journal has another format or
/// another process has it open.
[[nodiscard]] bool needs_salvage(const std::string& file, const std::string& copies,
                                 std::int64_t format);

/// Replaces the journal by one with its good records. Fails with kUnavailable and leaves the
/// journal unchanged (E0906: another process has it open; E0907: it has another format, or the new
/// one cannot be written).
[[nodiscard]] Result<Salvage> salvage_journal(const std::string& file, const std::string& copies,
                                              std::int64_t format);

/// Completes a salvage that was interrupted after the new database was ready. Call it before
/// opening the file.
void finish_salvage(const std::string& file);

/// The tables of the journal.
inline constexpr const char* kTables =
    "CREATE TABLE job (id INTEGER PRIMARY KEY, record TEXT NOT NULL, "
    "revision INTEGER NOT NULL, sum INTEGER NOT NULL);"
    "CREATE TABLE launch (id INTEGER PRIMARY KEY, record BLOB NOT NULL, "
    "revision INTEGER NOT NULL, sum INTEGER NOT NULL);"
    "CREATE TABLE value (key TEXT PRIMARY KEY, value TEXT NOT NULL, "
    "revision INTEGER NOT NULL, sum INTEGER NOT NULL);";

}  // namespace berth::broker
