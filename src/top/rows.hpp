// What the list below the devices shows: processes, as a list or a tree, or one row a user.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/process.hpp"
#include "top/keys.hpp"
#include "watch/frame.hpp"

namespace berth::top {

struct Row {
  const model::DeviceProcess* process = nullptr;
  int depth = 0;  // in the tree
};
/// Filtered, sorted, and with `is_tree` children below their parents (Settings::parents).
[[nodiscard]] std::vector<Row> rows_of(const watch::Frame& frame, const Settings& settings);

struct Sum {
  double value = 0;
  bool is_known = false;  // of at least one process
  bool is_whole = true;   // of all processes
};
struct UserRow {
  std::string user;  // "" unknown
  int processes = 0;
  std::set<int> devices;
  Sum memory_bytes, sm_percent, cpu_percent, rss_bytes;
};
[[nodiscard]] std::vector<UserRow> users_of(const watch::Frame& frame, const Settings& settings);

/// Finds the nearest ancestor of each process that is itself in the list. Remembers it, because
/// each step is a file in /proc.
class ParentCache {
 public:
  explicit ParentCache(std::string proc = "/proc") : proc_(std::move(proc)) {}
  /// Only for the tree.
  void read(const watch::Frame& frame, Settings& settings);

 private:
  using Known = std::pair<std::int64_t, std::uint64_t>;  // pid, start ticks
  std::string proc_;
  std::map<Known, std::int64_t> known_;  // 0: no ancestor is in the list
};

}  // namespace berth::top
