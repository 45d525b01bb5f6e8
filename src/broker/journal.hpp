// Journal: the broker's SQLite database in WAL mode, opened by only one process. A change is in the
// WAL file before the broker confirms it, so it survives kill -9. After sync() it also survives a
// power failure. There is no fsync for each change, because that would take longer than all other
// work for an answer.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "broker/salvage.hpp"
#include "model/job.hpp"

namespace berth::broker {

class Journal {
 public:
  /// Opens or creates FOLDER/journal.db. Repairs a damaged journal first; salvaged() says what was
  /// saved. Fails with kUnavailable (E0905: the folder is on a network file system; E0906: another
  /// broker uses it; E0907: it cannot be repaired or written, or a newer Berth made it).
  [[nodiscard]] static Result<Journal> open(const std::string& folder);
  Journal(Journal&&) noexcept;
  Journal& operator=(Journal&&) noexcept;
  ~Journal();

  /// What open() saved from a damaged journal; nullopt if it was not damaged.
  [[nodiscard]] const std::optional<Salvage>& salvaged() const;
  /// Returns the jobs by ascending id. Adds the ids of records that are not jobs to `unreadable`.
  /// Fails with kUnavailable (E0907).
  [[nodiscard]] Result<std::vector<model::Job>> jobs(
      std::vector<model::JobId>* unreadable = nullptr) const;
  /// Writes everything or nothing. Fails with kUnavailable (E0908: for example, the disk is full);
  /// then the broker must not confirm any of these changes.
  [[nodiscard]] Status write(const std::vector<const model::Job*>& changed,
                             const std::vector<model::JobId>& gone = {},
                             const std::map<std::string, std::string>& values = {});
  /// Stores how to start a job or the jobs of an array. write() deletes this record together with
  /// the job. Fails with the errors of write().
  [[nodiscard]] Status keep_launch(model::JobId id, std::string_view record);
  [[nodiscard]] std::optional<std::string> launch(model::JobId id) const;
  /// A value that does not belong to a job, such as past usage or drained devices.
  [[nodiscard]] std::optional<std::string> value(std::string_view key) const;
  [[nodiscard]] Status set_value(std::string_view key, std::string_view value);
  /// Waits until everything written is on the disk. May be called from another thread.
  void sync() const;
  /// Moves the changes in a large WAL into the database; other requests wait about 20 ms meanwhile.
  /// If the broker is busy (`is_quiet` is false), this only happens once the WAL is much larger. Do
  /// not call it while a request is being answered.
  void tidy(bool is_quiet);
  /// Makes one copy a day, FOLDER/copies/journal-DAY.db, and keeps the newest few. Call it every
  /// second: each call copies a part. The journal is also copied to this folder before its format
  /// is upgraded.
  void keep_daily_copy(std::int64_t unix_milliseconds);

 private:
  struct Parts;
  explicit Journal(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace berth::broker
