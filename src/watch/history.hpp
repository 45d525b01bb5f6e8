// History: the machine's readings and its users, in one SQLite file. Keeps one reading per second
// for a day, one per ten seconds for a week, and one per minute for three months. Written data
// survives kill -9; a power failure may lose the last seconds.
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

/// The interval between two moments, and how long they are kept. Both in seconds.
struct Tier {
  std::int64_t step, kept;
};
inline constexpr std::array<Tier, 3> kTiers = {{{1, kDay}, {10, 7 * kDay}, {60, 92 * kDay}}};

/// Collected data is written to the file after this many seconds.
inline constexpr std::int64_t kWriteEvery = 10;

class History {
 public:
  /// Creates the file if it is missing. Renames a damaged one and reports that to `note`. Fails
  /// with kUnavailable (E0984).
  [[nodiscard]] static Result<History> open(
      const std::string& file, const std::function<void(const std::string&)>& note = {});
  History(History&&) noexcept;
  History& operator=(History&&) noexcept;
  ~History();

  /// Adds a frame, and writes collected data every ten seconds. If the disk is full, tries again
  /// later.
  void add(const Frame& frame, const AskedMemory& asked = {});
  /// Writes the collected data; false if that failed.
  bool flush();

 private:
  struct Parts;
  explicit History(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

struct HistoryQuery {
  std::int64_t from = 0, to = 0;     // Unix seconds; `to` is not included
  std::int64_t step = 0;             // seconds; 0: the finest that reaches back to `from`
  std::vector<std::string> devices;  // prefixes of keys, or indices; empty: all
};

struct DeviceHistory {
  std::string key, name;
  int index = -1;  // as last seen
  std::int64_t step = 1;
  std::vector<std::pair<std::int64_t, Moment>>
      moments;  // moments by time; those without data are left out
};

struct UsageRow {
  std::int64_t from = 0;  // Unix seconds; start of a minute, or of an hour after a week
  UsageKey key;
  Usage usage;
};

/// A condition of a device in one minute.
struct ConditionRow {
  std::int64_t from = 0;  // Unix seconds
  std::string device;     // key_of()
  std::string what;       // "throttle:hw_thermal", "lost", "no_answer", "xid:79"
  double amount = 0;      // for how many seconds it held; for an Xid, how often it occurred
};

/// Reads while the daemon writes.
class HistoryReader {
 public:
  /// Fails with kNotFound (E0985: there is none), kPermissionDenied (E0985), kUnavailable (E0984).
  [[nodiscard]] static Result<HistoryReader> open(const std::string& file);
  HistoryReader(HistoryReader&&) noexcept;
  HistoryReader& operator=(HistoryReader&&) noexcept;
  ~HistoryReader();

  /// The time of the oldest reading, in Unix seconds; nullopt: none is written yet.
  [[nodiscard]] std::optional<std::int64_t> begin() const;
  [[nodiscard]] std::vector<DeviceHistory> devices(const HistoryQuery& query) const;
  [[nodiscard]] std::vector<UsageRow> usage(std::int64_t from, std::int64_t to) const;
  [[nodiscard]] std::vector<ConditionRow> conditions(std::int64_t from, std::int64_t to) const;

 private:
  struct Parts;
  explicit HistoryReader(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// The history file of a daemon with this state folder.
[[nodiscard]] std::string history_file(const std::string& state_folder);

}  // namespace berth::watch
