// Messages for users about the broker's past: its journal was damaged, or a job's files were found
// without their job. They are shown for a day, also by the next broker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::serve {

class Notices {
 public:
  /// Restores the notices from the journal, where they were stored as record().
  void resume(std::string record) { record_ = std::move(record); }
  /// The notices as JSON: [{"at":UNIX_MILLISECONDS,"id","message","hint"}]
  [[nodiscard]] const std::string& record() const { return record_; }
  /// If the same sentence is added again, it replaces the old one. Keeps the last ten.
  void add(std::int64_t at, std::string id, std::string sentence, std::string hint);
  [[nodiscard]] std::vector<Error> of_last_day(std::int64_t now) const;

 private:
  std::string record_ = "[]";
};

}  // namespace berth::serve
