// The rows of the list below the devices: processes as a list or a tree, or one row per user.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model/process.hpp"
#include "top/keys.hpp"
#include "watch/frame.hpp"

namespace berth::top {

struct Row {
  const model::DeviceProcess* process = nullptr;
  int depth = 0;  // depth in the tree; 0: a root
};
/// Returns the rows of the list, filtered and sorted. With `is_tree`, child processes come below
/// their parents.
[[nodiscard]] std::vector<Row> rows_of(const watch::Frame& frame, const Settings& settings);

struct Sum {
  double value = 0;
  bool is_known = false;  // the value of at least one process is known
  bool is_whole = true;   // the values of all processes are known
};
struct UserRow {
  std::string user;  // user name; "": unknown
  int processes = 0;
  std::set<int> devices;
  Sum memory_bytes, sm_percent, cpu_percent, rss_bytes;
};
[[nodiscard]] std::vector<UserRow> users_of(const watch::Frame& frame, const Settings& settings);

}  // namespace berth::top
