// How much each user has used the devices lately. The queue prefers users who have used less.
// Stored in the journal for the next broker.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace berth::serve {

class PastUse {
 public:
  /// Device-seconds by user id, with the meaning of broker::Broker::ahead().
  using ByUser = std::map<std::uint32_t, double>;

  /// Restores the record from the journal. Invalid text is treated as no use.
  void resume(std::string record) { record_ = std::move(record); }
  /// The record as JSON: {"at":UNIX_MILLISECONDS,"ahead":{"1000":DEVICE_SECONDS}}
  [[nodiscard]] const std::string& record() const { return record_; }
  /// The part of the recorded use that still counts now. It is halved for each `half_life` that has
  /// passed since the record was made.
  [[nodiscard]] ByUser left(std::int64_t now_unix_milliseconds,
                            std::chrono::milliseconds half_life) const;
  /// Replaces the record. Leaves out users with less than one second. Returns false if nothing has
  /// changed.
  [[nodiscard]] bool keep(const ByUser& use, std::int64_t now_unix_milliseconds);
  /// Call it when the wall clock was set: if the record's time is between `from` and `to`, adds
  /// `by` to it.
  void move_time(std::int64_t from, std::int64_t to, std::int64_t by);

 private:
  std::string record_ = "{}";
};

}  // namespace berth::serve
