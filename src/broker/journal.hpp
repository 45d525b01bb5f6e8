// Journal: what the broker must not forget. SQLite in WAL mode, owned by one process: a change is
// in the WAL file before it is answered, which outlives kill -9; what sync() has been told outlives
// a power cut as well. An fsync a change would cost more than the whole rest of an answer.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/job.hpp"

namespace berth::broker {

class Journal {
 public:
  /// FOLDER/journal.db, made with its folder where it is not there. Fails with kUnavailable (E0905:
  /// the folder is on a network file system; E0906: another broker has it; E0907: it is damaged, of
  /// a newer Berth, or cannot be written).
  [[nodiscard]] static Result<Journal> open(const std::string& folder);
  Journal(Journal&&) noexcept;
  Journal& operator=(Journal&&) noexcept;
  ~Journal();

  /// By ascending id. A record that cannot be read makes the whole journal damaged: E0907.
  [[nodiscard]] Result<std::vector<model::Job>> jobs() const;
  /// All of it or nothing. Fails with kUnavailable (E0908: the disk is full, say); nothing of it
  /// may be told to anyone then.
  [[nodiscard]] Status write(const std::vector<const model::Job*>& changed,
                             const std::vector<model::JobId>& gone = {},
                             const std::map<std::string, std::string>& values = {});
  /// What a job, or each of an array, is started with; `write` forgets it with what is gone. Fails
  /// as write().
  [[nodiscard]] Status keep_launch(model::JobId id, std::string_view record);
  [[nodiscard]] std::optional<std::string> launch(model::JobId id) const;
  /// A value that is no job's: what users had, which devices are drained.
  [[nodiscard]] std::optional<std::string> value(std::string_view key) const;
  [[nodiscard]] Status set_value(std::string_view key, std::string_view value);
  /// Waits until all that was written is on the disk. May be called from another thread.
  void sync() const;
  /// Moves the WAL into the database when it has grown: some 20 ms for whoever asks meanwhile, so
  /// where somebody does, only when it has grown much. Not on the way of an answer.
  void tidy(bool is_quiet);

 private:
  struct Parts;
  explicit Journal(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace berth::broker
