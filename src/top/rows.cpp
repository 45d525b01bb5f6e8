#include "top/rows.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::top {
namespace {

using model::DeviceProcess;

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return small;
}

bool matches(const DeviceProcess& process, const Settings& settings) {
  if (!settings.devices.empty() && !settings.devices.contains(process.device)) return false;
  if (!settings.user.empty() && process.user != settings.user &&
      !(process.uid && std::to_string(*process.uid) == settings.user))
    return false;
  if (settings.filter.empty()) return true;
  const std::string all = fmt::format(
      "{} {} {} {} {}", process.pid.value_or(process.host_pid.value_or(0)), process.user,
      process.job ? "job " + std::to_string(*process.job) : "", process.container, process.command);
  return lower(all).find(lower(settings.filter)) != std::string::npos;
}

/// A function that returns whether the first process comes before the second.
using Order = bool (*)(const DeviceProcess&, const DeviceProcess&);

/// Sorts by this member, the largest value first and unknown values last.
template <auto member>
bool has_more(const DeviceProcess& a, const DeviceProcess& b) {
  const auto& x = (a.*member).value;
  const auto& y = (b.*member).value;
  return x.has_value() != y.has_value() ? x.has_value() : x && *x > *y;
}

Order order_named(std::string_view sort) {
  if (sort == "sm") return has_more<&DeviceProcess::sm_percent>;
  if (sort == "cpu") return has_more<&DeviceProcess::cpu_percent>;
  if (sort == "rss") return has_more<&DeviceProcess::rss_bytes>;
  if (sort == "age") return has_more<&DeviceProcess::age_seconds>;
  if (sort == "user") return [](const auto& a, const auto& b) { return a.user < b.user; };
  if (sort == "pid")
    return [](const auto& a, const auto& b) {
      return a.host_pid.value_or(0) < b.host_pid.value_or(0);
    };
  if (sort == "device") return [](const auto& a, const auto& b) { return a.device < b.device; };
  return has_more<&DeviceProcess::memory_bytes>;
}

/// Sorts the rows as a tree: the rows of a process come below those of its parent. All other rows
/// keep their order.
class Tree {
 public:
  explicit Tree(const std::vector<Row>& rows) : rows_(rows) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i].process->pid) of_pid_[*rows[i].process->pid].push_back(i);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const DeviceProcess& one = *rows[i].process;
      if (one.pid && of_pid_[*one.pid].front() != i) continue;
      const bool is_child = one.pid && one.parent && of_pid_.contains(*one.parent);
      if (is_child)
        children_[*one.parent].push_back(i);
      else
        roots_.push_back(i);
    }
  }
  [[nodiscard]] std::vector<Row> in_order() {
    for (const std::size_t root : roots_) visit(root);
    // Parents may form a cycle in a damaged recording. Add the rows that no root has reached.
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (const auto pid = rows_[i].process->pid; pid && !done_pids_.contains(*pid)) visit(i);
    return std::move(done_);
  }

 private:
  /// Not recursive, because a recording may contain a very long chain of child processes.
  void visit(std::size_t root) {
    std::vector<std::pair<std::size_t, int>> next = {{root, 0}};
    while (!next.empty()) {
      const auto [row, depth] = next.back();
      next.pop_back();
      const auto pid = rows_[row].process->pid;
      if (!pid) {
        done_.push_back(rows_[row]);
        continue;
      }
      if (!done_pids_.insert(*pid).second) continue;
      for (const std::size_t one : of_pid_[*pid]) {
        done_.push_back(rows_[one]);
        done_.back().depth = depth;
      }
      const auto& children = children_[*pid];
      for (auto child = children.rbegin(); child != children.rend(); ++child)
        next.emplace_back(*child, depth + 1);
    }
  }

  const std::vector<Row>& rows_;
  std::map<std::int64_t, std::vector<std::size_t>> of_pid_, children_;
  std::set<std::int64_t> done_pids_;
  std::vector<std::size_t> roots_;
  std::vector<Row> done_;
};

template <typename T>
void add(Sum& sum, const model::Reading<T>& reading) {
  if (reading) {
    sum.value += static_cast<double>(*reading);
    sum.is_known = true;
  } else {
    sum.is_whole = false;
  }
}

bool comes_before(const UserRow& a, const UserRow& b, std::string_view sort) {
  const auto by = [&](const Sum& x, const Sum& y) {
    if (x.is_known != y.is_known) return x.is_known;
    return x.value != y.value ? x.value > y.value : a.user < b.user;
  };
  if (sort == "user") return a.user < b.user;
  if (sort == "sm") return by(a.sm_percent, b.sm_percent);
  if (sort == "cpu") return by(a.cpu_percent, b.cpu_percent);
  if (sort == "rss") return by(a.rss_bytes, b.rss_bytes);
  if (sort == "device") return a.devices.size() > b.devices.size();
  return by(a.memory_bytes, b.memory_bytes);
}

}  // namespace

std::vector<Row> rows_of(const watch::Frame& frame, const Settings& settings) {
  std::vector<Row> rows;
  for (const DeviceProcess& process : frame.snapshot.processes)
    if (matches(process, settings)) rows.push_back({&process, 0});
  std::stable_sort(rows.begin(), rows.end(),
                   [comes_before = order_named(settings.sort)](const Row& a, const Row& b) {
                     return comes_before(*a.process, *b.process);
                   });
  if (settings.is_reversed) std::reverse(rows.begin(), rows.end());
  if (settings.is_tree) return Tree(rows).in_order();
  return rows;
}

std::vector<UserRow> users_of(const watch::Frame& frame, const Settings& settings) {
  std::map<std::string, UserRow> users;
  std::set<std::int64_t> seen;
  for (const DeviceProcess& process : frame.snapshot.processes) {
    if (!matches(process, settings)) continue;
    UserRow& row = users[process.user];
    row.user = process.user;
    row.devices.insert(process.device);
    add(row.memory_bytes, process.memory_bytes);
    add(row.sm_percent, process.sm_percent);
    // A process has one row per device, but its CPU use and host memory must be counted only once.
    const auto pid = process.pid ? process.pid : process.host_pid;
    if (pid && !seen.insert(*pid).second) continue;
    ++row.processes;
    add(row.cpu_percent, process.cpu_percent);
    add(row.rss_bytes, process.rss_bytes);
  }
  std::vector<UserRow> rows;
  for (auto& [name, row] : users) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [&](const UserRow& a, const UserRow& b) {
    return comes_before(a, b, order_of(settings));
  });
  if (settings.is_reversed) std::reverse(rows.begin(), rows.end());
  return rows;
}

}  // namespace berth::top
