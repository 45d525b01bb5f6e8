// Reads the journal's files without SQLite, for a journal that SQLite rejects or would truncate:
// SQLite silently drops everything after the first bad frame of a WAL, and it does not check the
// checksums of records. Pure functions of bytes; the formats: https://sqlite.org/fileformat2.html.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth::broker {

/// The content of a WAL file: changed pages in the order in which they were written.
struct Wal {
  struct Frame {
    std::uint32_t page = 0;             // number of the page, from 1
    std::uint32_t pages_at_commit = 0;  // 0: the frame is not the last of its transaction
    bool is_good = false;               // the checksum of the frame matches
    std::size_t at = 0;                 // offset of the page in the file
  };
  std::uint32_t page_size = 0;
  std::vector<Frame> frames;  // the frames up to the last complete transaction
  /// True if SQLite would not read all of these frames. Frames of an unfinished transaction do not
  /// count as damage.
  bool is_damaged = false;
  std::size_t readable = 0;  // number of frames SQLite would read
};
/// `page_size`: the page size of the database, which is used if the WAL's header is damaged.
[[nodiscard]] Wal read_wal(std::string_view bytes, std::uint32_t page_size);

/// The page size of a database file; 0: the file is not a database.
[[nodiscard]] std::uint32_t page_size_of(std::string_view database);

/// Which frames to apply to the database: the frames that SQLite reads, all frames, or all
/// undamaged frames.
enum class Frames { kReadable, kAll, kGood };
[[nodiscard]] std::string with_frames(std::string_view database, std::string_view wal_bytes,
                                      const Wal& wal, Frames which);

/// A row of one of the journal's tables.
struct StoredRecord {
  std::string kind;  // name of the table; "" if the name cannot be read
  std::string key;
  std::int64_t revision = 0;
  std::int64_t sum = 0;
  std::string bytes;
  bool is_good = false;  // the record matches its checksum
  /// The page lists this row as existing. If false, the row may be an old version.
  bool is_live = false;
};
/// Rows on every page that looks like part of a table, even if no page of the tree points to it.
[[nodiscard]] std::vector<StoredRecord> records_in(std::string_view image, std::uint32_t page_size);

}  // namespace berth::broker
