#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "watch/history.hpp"
#include "watch/sqlite.hpp"

namespace berth::watch {

namespace {

using sqlite::Database;
using sqlite::Statement;

/// Whether one of the names is the device's index ("0") or a prefix of its key ("GPU-3f2a").
bool is_named(const DeviceHistory& device, const std::vector<std::string>& names) {
  return names.empty() || std::any_of(names.begin(), names.end(), [&](const std::string& one) {
           return one == std::to_string(device.index) ||
                  (one.size() >= 3 && device.key.starts_with(one));
         });
}

bool has_any(const Moment& moment) {
  return std::any_of(moment.begin(), moment.end(),
                     [](const auto& value) { return value.has_value(); });
}

std::size_t tier_for(std::int64_t from, std::int64_t to, std::int64_t step) {
  for (std::size_t tier = 0; tier + 1 < kTiers.size(); ++tier) {
    const bool reaches = from >= to - kTiers[tier].kept;
    const bool is_coarse_enough = step == 0 || kTiers[tier + 1].step > step;
    if (reaches && is_coarse_enough) return tier;
  }
  return kTiers.size() - 1;
}

}  // namespace

struct HistoryReader::Parts {
  Database database;
};

Result<HistoryReader> HistoryReader::open(const std::string& file) {
  const std::string shown = printable(file);
  if (::access(file.c_str(), R_OK) != 0) {
    const bool is_there = errno != ENOENT && errno != ENOTDIR;
    return Error{is_there ? ErrorCode::kPermissionDenied : ErrorCode::kNotFound, "E0985",
                 is_there ? text("the history {} may not be read by this user", shown)
                          : text("there is no history yet: start {} to record it", "berth serve"),
                 is_there ? "ls -l " + shown : "berth serve"};
  }
  auto parts = std::make_unique<Parts>();
  sqlite3* database = nullptr;
  const int code = ::sqlite3_open_v2(file.c_str(), &database, SQLITE_OPEN_READONLY, nullptr);
  parts->database.reset(database);
  if (database != nullptr) ::sqlite3_busy_timeout(database, 2000);
  const Statement probe(database, "SELECT 1 FROM chunk, usage, device LIMIT 1");
  if (code != SQLITE_OK || !probe)
    return Error{ErrorCode::kUnavailable, "E0984",
                 text("the history {} cannot be used: {}", shown, sqlite::message(database)),
                 "ls -l " + shown};
  return HistoryReader(std::move(parts));
}

HistoryReader::HistoryReader(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
HistoryReader::HistoryReader(HistoryReader&&) noexcept = default;
HistoryReader& HistoryReader::operator=(HistoryReader&&) noexcept = default;
HistoryReader::~HistoryReader() = default;

std::optional<std::int64_t> HistoryReader::begin() const {
  std::optional<std::int64_t> first;
  Statement chunks(parts_->database.get(),
                   "SELECT start, data FROM chunk WHERE tier = ? ORDER BY start LIMIT 1");
  for (std::size_t tier = 0; tier < kTiers.size(); ++tier) {
    chunks.bind(1, static_cast<std::int64_t>(tier));
    const auto chunk = chunks.step() ? decode(chunks.text(1)) : std::nullopt;
    for (std::size_t i = 0; chunk && i < chunk->size(); ++i) {
      const std::int64_t time = chunks.number(0) + static_cast<std::int64_t>(i) * kTiers[tier].step;
      // A mean has the time at which its interval starts. The first reading may come later in this
      // interval.
      if (has_any((*chunk)[i]) && (!first || time + kTiers[tier].step <= *first)) first = time;
    }
    chunks.reset();
  }
  return first;
}

std::vector<DeviceHistory> HistoryReader::devices(const HistoryQuery& query) const {
  const std::size_t tier = tier_for(query.from, query.to, query.step);
  const std::int64_t step = kTiers[tier].step;
  const std::int64_t length = step * static_cast<std::int64_t>(kChunkMoments);
  std::vector<DeviceHistory> found;
  Statement list(parts_->database.get(),
                 "SELECT id, key, name, number FROM device ORDER BY number");
  Statement chunks(parts_->database.get(),
                   "SELECT start, data FROM chunk WHERE tier = ? AND device = ? AND start > ? AND "
                   "start < ? ORDER BY start");
  while (list.step()) {
    DeviceHistory device;
    device.key = printable(list.text(1));
    device.name = printable(list.text(2));
    device.index = static_cast<int>(list.number(3));
    device.step = step;
    if (!is_named(device, query.devices)) continue;
    chunks.bind(1, static_cast<std::int64_t>(tier));
    chunks.bind(2, list.number(0));
    chunks.bind(3, query.from - length);
    chunks.bind(4, query.to);
    while (chunks.step()) {
      const auto chunk = decode(chunks.text(1));
      if (!chunk) continue;
      for (std::size_t i = 0; i < chunk->size(); ++i) {
        const std::int64_t time = chunks.number(0) + static_cast<std::int64_t>(i) * step;
        const Moment& moment = (*chunk)[i];
        if (has_any(moment) && time >= query.from && time < query.to)
          device.moments.emplace_back(time, moment);
      }
    }
    chunks.reset();
    found.push_back(std::move(device));
  }
  return found;
}

std::vector<UsageRow> HistoryReader::usage(std::int64_t from, std::int64_t to) const {
  std::vector<UsageRow> rows;
  Statement all(parts_->database.get(),
                "SELECT start, device, user, job, program, held, used, known, idle, memory, "
                "energy, peak, total, asked FROM usage WHERE start >= ? AND start < ? "
                "ORDER BY start");
  if (!all)  // written by an older version: without the last three columns
    all = Statement(parts_->database.get(),
                    "SELECT start, device, user, job, program, held, used, known, idle, memory, "
                    "energy, NULL, NULL, NULL FROM usage WHERE start >= ? AND start < ? "
                    "ORDER BY start");
  all.bind(1, from);
  all.bind(2, to);
  while (all.step()) {
    UsageRow row;
    row.from = all.number(0);
    row.key = {std::string(all.text(1)), printable(all.text(2)),
               static_cast<std::uint64_t>(all.number(3)), printable(all.text(4))};
    row.usage = {all.real(5),        all.real(6),        all.real(7),
                 all.real(8),        all.real(9),        all.real(10),
                 all.maybe_real(11), all.maybe_real(12), all.maybe_real(13)};
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<ConditionRow> HistoryReader::conditions(std::int64_t from, std::int64_t to) const {
  std::vector<ConditionRow> rows;
  Statement all(parts_->database.get(),
                "SELECT start, device, what, amount FROM condition WHERE start >= ? AND start < ? "
                "ORDER BY start, device, what");
  if (!all) return rows;  // written by an older version, which had no such table
  all.bind(1, from);
  all.bind(2, to);
  while (all.step())
    rows.push_back({all.number(0), printable(all.text(1)), printable(all.text(2)), all.real(3)});
  return rows;
}

}  // namespace berth::watch
