// History: the readings and the users of the machine, in one SQLite file. It keeps one reading per
// second for a day, one per ten seconds for a week, and one per minute for three months. Written
// data survives kill -9; a power failure may lose the last seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "watch/chunk.hpp"
#include "watch/frame.hpp"
#include "watch/usage_meter.hpp"

namespace berth::watch {

inline constexpr std::int64_t kDay = 86'400;

/// `step`: the interval between two stored readings. `kept`: how long they are kept. Both are in
/// seconds.
struct Tier {
  std::int64_t step, kept;
};
inline constexpr std::array<Tier, 3> kTiers = {{{1, kDay}, {10, 7 * kDay}, {60, 92 * kDay}}};

/// Collected data is written to the file every so many seconds.
inline constexpr std::int64_t kWriteEvery = 10;

class History {
 public:
  /// Opens the file, or creates it if it is missing. Renames a damaged file and passes a message to
  /// `note`. Fails with kUnavailable (E0984).
  [[nodiscard]] static Result<History> open(
      const std::string& file, const std::function<void(const std::string&)>& note = {});
  History(History&&) noexcept;
  History& operator=(History&&) noexcept;
  ~History();

  /// Adds a frame. Writes the collected data every ten seconds. If the disk is full, keeps the data
  /// and tries again later.
  void add(const Frame& frame, const AskedMemory& asked = {});
  /// Writes the collected data now. Returns false if this failed.
  bool flush();

 private:
  struct Parts;
  explicit History(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

struct HistoryQuery {
  std::int64_t from = 0, to = 0;  // Unix seconds; `to` is not included
  std::int64_t step = 0;          // seconds; 0: the shortest interval that reaches back to `from`
  std::vector<std::string> devices;  // indices, or prefixes of device keys; empty: all devices
};

struct DeviceHistory {
  std::string key, name;
  int index = -1;  // last known index of the device
  std::int64_t step = 1;
  std::vector<std::pair<std::int64_t, Moment>>
      moments;  // moments by time; those without data are left out
};

struct UsageRow {
  std::int64_t from = 0;  // Unix seconds; start of a minute, or of an hour if older than a week
  UsageKey key;
  Usage usage;
};

/// One condition of a device in one minute.
struct ConditionRow {
  std::int64_t from = 0;  // Unix seconds; start of the minute
  std::string device;     // key_of() of the device
  std::string what;       // the condition: "throttle:hw_thermal", "lost", "no_answer", "xid:79"
  double amount = 0;      // seconds for which the condition held; for an Xid, the number of events
};

/// Reads the history file. The daemon may write to it at the same time.
class HistoryReader {
 public:
  /// Opens the file. Fails with kNotFound (E0985: there is no history), kPermissionDenied (E0985)
  /// and kUnavailable (E0984).
  [[nodiscard]] static Result<HistoryReader> open(const std::string& file);
  HistoryReader(HistoryReader&&) noexcept;
  HistoryReader& operator=(HistoryReader&&) noexcept;
  ~HistoryReader();

  /// Returns the time of the oldest reading in Unix seconds; nullopt if the file has no reading.
  [[nodiscard]] std::optional<std::int64_t> begin() const;
  [[nodiscard]] std::vector<DeviceHistory> devices(const HistoryQuery& query) const;
  [[nodiscard]] std::vector<UsageRow> usage(std::int64_t from, std::int64_t to) const;
  [[nodiscard]] std::vector<ConditionRow> conditions(std::int64_t from, std::int64_t to) const;

 private:
  struct Parts;
  explicit HistoryReader(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// Returns the path of the history file in a daemon's state folder.
[[nodiscard]] std::string history_file(const std::string& state_folder);

}  // namespace berth::watch
