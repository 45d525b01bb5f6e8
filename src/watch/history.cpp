#include "watch/history.hpp"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <tuple>

#include "base/error_words.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "watch/join.hpp"
#include "watch/sqlite.hpp"

namespace berth::watch {

namespace {

using sqlite::Database;
using sqlite::execute;
using sqlite::Statement;

/// The version of the file format. Increase it if older versions of Berth would misread the file.
constexpr int kFormat = 1;
constexpr std::int64_t kForgetEvery = 600;  // seconds
/// The maximum number of chunks that are kept until they can be written. If there are more, the
/// oldest is dropped.
constexpr std::size_t kMostPending = 512;
constexpr std::int64_t kUsageStep = 60, kUsageKept = 366 * kDay;
/// Usage rows that are older than this many seconds are merged: 60 rows of a minute become one row
/// of an hour.
constexpr std::int64_t kUsageMinutesKept = 7 * kDay;

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS device (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, "
    "  name TEXT NOT NULL, number INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS chunk (tier INTEGER NOT NULL, device INTEGER NOT NULL, "
    "  start INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (tier, device, start)) "
    "  WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS usage (start INTEGER NOT NULL, device TEXT NOT NULL, "
    "  user TEXT NOT NULL, job INTEGER NOT NULL, program TEXT NOT NULL, held REAL NOT NULL, "
    "  used REAL NOT NULL, known REAL NOT NULL, idle REAL NOT NULL, memory REAL NOT NULL, "
    "  energy REAL NOT NULL, peak REAL, total REAL, asked REAL, "
    "  PRIMARY KEY (start, device, user, job, program)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS condition (start INTEGER NOT NULL, device TEXT NOT NULL, "
    "  what TEXT NOT NULL, amount REAL NOT NULL, PRIMARY KEY (start, device, what)) "
    "  WITHOUT ROWID;";
/// The columns of the usage table that files of older versions lack.
constexpr std::array<const char*, 3> kNewColumns = {"peak", "total", "asked"};

constexpr const char* kAddUsage =
    "INSERT INTO usage (start, device, user, job, program, held, used, known, idle, memory, "
    "energy, peak, total, asked) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (start, device, user, job, program) DO UPDATE SET held = held + excluded.held, "
    "used = used + excluded.used, known = known + excluded.known, idle = idle + excluded.idle, "
    "memory = memory + excluded.memory, energy = energy + excluded.energy, "
    "peak = max(coalesce(peak, excluded.peak), coalesce(excluded.peak, peak)), "
    "total = max(coalesce(total, excluded.total), coalesce(excluded.total, total)), "
    "asked = coalesce(excluded.asked, asked)";
constexpr const char* kAddCondition =
    "INSERT INTO condition VALUES (?, ?, ?, ?) "
    "ON CONFLICT (start, device, what) DO UPDATE SET amount = amount + excluded.amount";

Error unusable(const std::string& file, const std::string& why) {
  return {ErrorCode::kUnavailable, "E0984",
          text("the history {} cannot be used: {}", printable(file), why),
          "ls -l " + printable(file)};
}

bool is_damage(int code) {
  return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

/// Runs SQLite's integrity check. Returns false if the file is damaged.
bool is_sound(sqlite3* database) {
  Statement check(database, "PRAGMA quick_check(1)");
  if (!check) return !is_damage(::sqlite3_errcode(database));
  if (!check.step()) return !is_damage(::sqlite3_errcode(database));
  return check.text(0) == "ok";
}

std::int64_t floor_to(std::int64_t time, std::int64_t step) {
  return time - ((time % step) + step) % step;
}

/// A chunk that still gets readings.
struct Open {
  std::int64_t start = -1;
  Chunk moments;
  bool is_dirty = false;
};

/// The data of one device with one interval (tier).
struct Lane {
  Open chunk;
  Mean mean;                  // mean of the interval that is not over yet
  std::int64_t mean_at = -1;  // its time
};

struct Watched {
  std::int64_t id = 0;
  std::string name;
  int number = -1;
  std::array<Lane, kTiers.size()> lanes;
};

}  // namespace

struct History::Parts {
  std::string file;
  Database database;
  Statement begin, commit, roll_back, add_device, id_of, put_chunk, get_chunk, add_usage,
      add_condition;
  std::map<std::string, Watched> devices;
  UsageMeter meter;
  struct Pending {
    std::size_t tier;
    std::int64_t device, start;
    std::string bytes;
  };
  std::vector<Pending> full;  // full chunks that are not written yet
  std::map<std::pair<std::int64_t, UsageKey>, Usage> usage;
  std::map<std::tuple<std::int64_t, std::string, std::string>, double> conditions;
  /// Times of the first frame and of the previous frame.
  std::optional<double> first_seconds, last_seconds;
  // (device, Xid) → time of the last event in milliseconds
  std::map<std::pair<std::string, int>, std::int64_t> last_xids;
  std::int64_t written_at = -1, forgot_at = -1;

  bool prepare() {
    sqlite3* const to = database.get();
    if (!execute(to, "PRAGMA journal_mode = WAL") || !execute(to, "PRAGMA synchronous = NORMAL") ||
        !execute(to, kSchema) || !execute(to, "PRAGMA user_version = " + std::to_string(kFormat)))
      return false;
    for (const char* column : kNewColumns)
      if (!Statement(to, fmt::format("SELECT {} FROM usage", column).c_str()))
        if (!execute(to, fmt::format("ALTER TABLE usage ADD COLUMN {} REAL", column))) return false;
    begin = Statement(to, "BEGIN IMMEDIATE");
    commit = Statement(to, "COMMIT");
    roll_back = Statement(to, "ROLLBACK");
    add_device =
        Statement(to,
                  "INSERT INTO device (key, name, number) VALUES (?, ?, ?) "
                  "ON CONFLICT (key) DO UPDATE SET name = excluded.name, number = excluded.number");
    id_of = Statement(to, "SELECT id FROM device WHERE key = ?");
    put_chunk = Statement(to, "INSERT OR REPLACE INTO chunk VALUES (?, ?, ?, ?)");
    get_chunk = Statement(to, "SELECT data FROM chunk WHERE tier = ? AND device = ? AND start = ?");
    add_usage = Statement(to, kAddUsage);
    add_condition = Statement(to, kAddCondition);
    return begin && commit && roll_back && add_device && id_of && put_chunk && get_chunk &&
           add_usage && add_condition;
  }

  Watched* device_of(const model::Device& device) {
    const bool is_cpu = device.kind == model::DeviceKind::kCpu;
    const std::string key = is_cpu ? "cpu" : key_of(device);
    if (key.empty()) return nullptr;
    Watched& watched = devices[key];
    if (watched.id != 0 && watched.number == device.index && watched.name == device.name)
      return &watched;
    add_device.bind(1, key);
    add_device.bind(2, device.name);
    add_device.bind(3, std::int64_t{device.index});
    add_device.run();
    id_of.bind(1, key);
    watched.id = id_of.step() ? id_of.number(0) : 0;
    id_of.reset();
    watched.name = device.name;
    watched.number = device.index;
    return watched.id == 0 ? nullptr : &watched;
  }

  /// Reads the chunk that an earlier daemon wrote for this time. New values are added to it, so its
  /// values are not lost.
  [[nodiscard]] Chunk stored(std::size_t tier, std::int64_t device, std::int64_t start) {
    get_chunk.bind(1, static_cast<std::int64_t>(tier));
    get_chunk.bind(2, device);
    get_chunk.bind(3, start);
    std::optional<Chunk> chunk;
    if (get_chunk.step()) chunk = decode(get_chunk.text(0));
    get_chunk.reset();
    return chunk.value_or(Chunk{});
  }

  void put(Watched& watched, std::size_t tier, std::int64_t time, const Moment& moment) {
    const std::int64_t step = kTiers[tier].step;
    const std::int64_t start = floor_to(time, step * static_cast<std::int64_t>(kChunkMoments));
    Open& chunk = watched.lanes[tier].chunk;
    if (chunk.start != start) {
      close(watched, tier);
      chunk.start = start;
      chunk.moments = stored(tier, watched.id, start);
    }
    chunk.moments[static_cast<std::size_t>((time - start) / step)] = moment;
    chunk.is_dirty = true;
  }

  void close(Watched& watched, std::size_t tier) {
    Open& chunk = watched.lanes[tier].chunk;
    if (!chunk.is_dirty) return;
    full.push_back({tier, watched.id, chunk.start, encode(chunk.moments)});
    chunk.is_dirty = false;
    if (full.size() > kMostPending) full.erase(full.begin());
  }

  void add_moment(Watched& watched, std::int64_t time, const Moment& moment) {
    put(watched, 0, time, moment);
    for (std::size_t tier = 1; tier < kTiers.size(); ++tier) {
      Lane& lane = watched.lanes[tier];
      const std::int64_t at = floor_to(time, kTiers[tier].step);
      if (at != lane.mean_at) {
        if (!lane.mean.empty()) put(watched, tier, lane.mean_at, lane.mean.take());
        lane.mean_at = at;
      }
      lane.mean.add(moment);
    }
  }

  bool write() {
    bool is_well = begin.run();
    for (auto& [key, watched] : devices)
      for (std::size_t tier = 0; tier < kTiers.size(); ++tier) {
        const Open& chunk = watched.lanes[tier].chunk;
        if (chunk.is_dirty)
          is_well = is_well && write_chunk(tier, watched.id, chunk.start, encode(chunk.moments));
      }
    for (const Pending& one : full)
      is_well = is_well && write_chunk(one.tier, one.device, one.start, one.bytes);
    for (const auto& [at, usage_of] : usage)
      is_well = is_well && write_usage(at.first, at.second, usage_of);
    for (const auto& [at, amount] : conditions) is_well = is_well && write_condition(at, amount);
    is_well = is_well && commit.run();
    if (!is_well) {
      roll_back.run();
      return false;
    }
    for (auto& [key, watched] : devices)
      for (Lane& lane : watched.lanes) lane.chunk.is_dirty = false;
    full.clear();
    usage.clear();
    conditions.clear();
    return true;
  }

  bool write_chunk(std::size_t tier, std::int64_t device, std::int64_t start,
                   const std::string& bytes) {
    put_chunk.bind(1, static_cast<std::int64_t>(tier));
    put_chunk.bind(2, device);
    put_chunk.bind(3, start);
    put_chunk.bind_bytes(4, bytes);
    return put_chunk.run();
  }

  bool write_usage(std::int64_t start, const UsageKey& key, const Usage& one) {
    add_usage.bind(1, start);
    add_usage.bind(2, key.device);
    add_usage.bind(3, key.user);
    add_usage.bind(4, static_cast<std::int64_t>(key.job));
    add_usage.bind(5, key.program);
    int at = 6;
    for (const double number : {one.held_seconds, one.used_seconds, one.known_seconds,
                                one.idle_seconds, one.memory_byte_seconds, one.energy_joules})
      add_usage.bind(at++, number);
    for (const auto& number :
         {one.peak_memory_bytes, one.device_memory_bytes, one.asked_memory_bytes})
      add_usage.bind(at++, number);
    return add_usage.run();
  }

  bool write_condition(const std::tuple<std::int64_t, std::string, std::string>& at,
                       double amount) {
    add_condition.bind(1, std::get<0>(at));
    add_condition.bind(2, std::get<1>(at));
    add_condition.bind(3, std::get<2>(at));
    add_condition.bind(4, amount);
    return add_condition.run();
  }

  /// Returns the minute to which an Xid belongs. nullopt if it is already counted: an earlier
  /// daemon may have counted it, because the kernel log is read from its beginning. Or NVML and the
  /// kernel log both report it.
  std::optional<std::int64_t> minute_of(const model::XidEvent& event, const std::string& device,
                                        const Frame& frame) {
    constexpr std::int64_t kSame =
        5000;  // maximum time between two reports of one event, in milliseconds
    const std::int64_t now = frame.snapshot.unix_milliseconds;
    const std::int64_t time = event.unix_milliseconds > 0 ? event.unix_milliseconds : now;
    // Ignore events from before the first frame. Compare ages, not times, because the clock may
    // have been set in the meantime.
    if (static_cast<double>(now - time) > (frame.seconds - *first_seconds) * 1000)
      return std::nullopt;
    const auto [last, is_first] = last_xids.try_emplace({device, event.code}, time);
    if (!is_first && std::abs(time - last->second) <= kSame) return std::nullopt;
    last->second = time;
    return floor_to(floor_to(time, 1000) / 1000, kUsageStep);
  }

  /// Counts for how many seconds each condition of a device held, and how often each Xid occurred.
  void add_conditions(const Frame& frame, std::int64_t minute) {
    constexpr double kLongestGap = 10;  // seconds
    const double seconds = last_seconds ? frame.seconds - *last_seconds : 0;
    last_seconds = frame.seconds;
    if (!first_seconds) first_seconds = frame.seconds;
    for (const model::Device& device : frame.snapshot.devices) {
      const std::string key = key_of(device);
      if (key.empty()) continue;
      const auto add = [&](const std::string& what, double amount) {
        if (amount > 0) conditions[{minute, key, what}] += amount;
      };
      if (seconds <= kLongestGap) {
        if (device.health == model::Health::kLost) add("lost", seconds);
        if (device.health == model::Health::kNoAnswer) add("no_answer", seconds);
        for (const std::string& reason : device.throttle_reasons)
          add("throttle:" + reason, seconds);
      }
      for (const model::XidEvent& one : frame.xids)
        if (!one.device.empty() && device.pci_address.starts_with(one.device))
          if (const auto at = minute_of(one, key, frame))
            conditions[{*at, key, "xid:" + std::to_string(one.code)}] += 1;
    }
  }

  void forget(std::int64_t now) {
    forgot_at = now;
    sqlite3* const from = database.get();
    for (std::size_t tier = 0; tier < kTiers.size(); ++tier)
      execute(from, fmt::format("DELETE FROM chunk WHERE tier = {} AND start < {}", tier,
                                now - kTiers[tier].kept));
    execute(from, fmt::format("DELETE FROM condition WHERE start < {}", now - kTiers.back().kept));
    const std::int64_t hour_before = floor_to(now - kUsageMinutesKept, 3600);
    execute(from, "BEGIN IMMEDIATE");
    const bool is_well =
        execute(from,
                fmt::format(
                    "INSERT OR REPLACE INTO usage (start, device, user, job, program, held, used, "
                    "known, idle, memory, energy, peak, total, asked) "
                    "SELECT start - start % 3600, "
                    "device, user, job, program, sum(held), sum(used), sum(known), "
                    "sum(idle), sum(memory), sum(energy), max(peak), max(total), "
                    "CASE WHEN min(asked) = 0 THEN 0 ELSE max(asked) END "
                    "FROM usage WHERE start < {} "
                    "GROUP BY start / 3600, device, user, job, program",
                    hour_before)) &&
        execute(from, fmt::format("DELETE FROM usage WHERE start < {} AND start % 3600 != 0 OR "
                                  "start < {}",
                                  hour_before, now - kUsageKept));
    execute(from, is_well ? "COMMIT" : "ROLLBACK");
  }
};

Result<History> History::open(const std::string& file,
                              const std::function<void(const std::string&)>& note) {
  auto parts = std::make_unique<Parts>();
  parts->file = file;
  for (bool is_second = false;; is_second = true) {
    sqlite3* database = nullptr;
    const int code = ::sqlite3_open_v2(
        file.c_str(), &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW,
        nullptr);
    parts->database.reset(database);
    if (database != nullptr) ::sqlite3_busy_timeout(database, 1000);
    // Only the broker's user may read who used what. SQLite gives its additional files the
    // permissions of the main file.
    for (const char* suffix : {"", "-wal", "-shm"}) ::chmod((file + suffix).c_str(), 0600);
    if (code == SQLITE_OK && is_sound(database) && parts->prepare())
      return History(std::move(parts));
    const int problem = database != nullptr ? ::sqlite3_errcode(database) : code;
    const std::string why = sqlite::message(database);
    if (is_second || (!is_damage(problem) && problem != SQLITE_OK)) return unusable(file, why);
    // The file is damaged. Rename it and create a new one: losing history is acceptable.
    *parts = {};
    parts->file = file;
    const std::string aside = file + ".damaged";
    if (::rename(file.c_str(), aside.c_str()) != 0) return unusable(file, error_words(errno));
    for (const char* end : {"-wal", "-shm"}) ::unlink((file + end).c_str());
    if (note)
      note(text("the history was damaged: Berth renamed the file to {} and started a new history",
                printable(aside)));
  }
}

History::History(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
History::History(History&&) noexcept = default;
History& History::operator=(History&&) noexcept = default;
History::~History() {
  if (parts_) static_cast<void>(flush());
}

void History::add(const Frame& frame, const AskedMemory& asked) {
  Parts& parts = *parts_;
  const std::int64_t now = floor_to(frame.snapshot.unix_milliseconds, 1000) / 1000;
  for (const model::Device& device : frame.snapshot.devices)
    if (Watched* const watched = parts.device_of(device))
      parts.add_moment(*watched, now, moment_of(device.readings));
  parts.add_conditions(frame, floor_to(now, kUsageStep));
  parts.meter.add(frame, asked);
  for (auto& [key, usage] : parts.meter.take())
    parts.usage[{floor_to(now, kUsageStep), key}].add(usage);
  if (parts.written_at < 0) parts.written_at = now;
  // Write every ten seconds, and also if the clock was set back.
  if (now - parts.written_at >= kWriteEvery || now < parts.written_at) {
    parts.written_at = now;
    parts.write();
    if (now - parts.forgot_at >= kForgetEvery || now < parts.forgot_at) parts.forget(now);
  }
  constexpr std::size_t kMostUsage = 100'000;
  if (parts.usage.size() > kMostUsage) parts.usage.clear();
  if (parts.conditions.size() > kMostUsage) parts.conditions.clear();
}

bool History::flush() {
  for (auto& [key, watched] : parts_->devices)
    for (std::size_t tier = 1; tier < kTiers.size(); ++tier) {
      Lane& lane = watched.lanes[tier];
      if (lane.mean.empty()) continue;
      // Write the mean of the interval so far. It is written again when the interval is over.
      Mean so_far = lane.mean;
      parts_->put(watched, tier, lane.mean_at, so_far.take());
    }
  return parts_->write();
}

std::string history_file(const std::string& state_folder) {
  return state_folder + "/history.db";
}

}  // namespace berth::watch
