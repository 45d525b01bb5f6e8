// What users should know of the broker's past: its journal was damaged, or a job's files were found
// without their job. Shown for a day, also by the next broker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::serve {

class Notices {
 public:
  /// Continues with a record() of the journal.
  void resume(std::string record) { record_ = std::move(record); }
  /// [{"at":UNIX_MILLISECONDS,"id","message","hint"}]
  [[nodiscard]] const std::string& record() const { return record_; }
  /// The same sentence again replaces the old one. Keeps the last ten.
  void add(std::int64_t at, std::string id, std::string sentence, std::string hint);
  [[nodiscard]] std::vector<Error> of_last_day(std::int64_t now) const;

 private:
  std::string record_ = "[]";
};

}  // namespace berth::serve
