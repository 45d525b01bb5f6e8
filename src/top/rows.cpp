#include "top/rows.hpp"

#include <algorithm>
#include <set>

#include "base/file.hpp"
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

/// Whether `a` is sorted before `b`. Numbers are in descending order, unknown ones last; texts are
/// in ascending order.
bool comes_before(const DeviceProcess& a, const DeviceProcess& b, const std::string& sort) {
  const auto by = [](const auto& x, const auto& y) {
    if (x.has_value() != y.has_value()) return x.has_value();
    return x && *x > *y;
  };
  if (sort == "sm") return by(a.sm_percent.value, b.sm_percent.value);
  if (sort == "cpu") return by(a.cpu_percent.value, b.cpu_percent.value);
  if (sort == "rss") return by(a.rss_bytes.value, b.rss_bytes.value);
  if (sort == "age") return by(a.age_seconds.value, b.age_seconds.value);
  if (sort == "user") return a.user < b.user;
  if (sort == "pid") return a.host_pid.value_or(0) < b.host_pid.value_or(0);
  if (sort == "device") return a.device < b.device;
  return by(a.memory_bytes.value, b.memory_bytes.value);
}

/// The parent in field 4 of /proc/PID/stat; 0: none, or not readable.
std::int64_t parent_of(const std::string& proc, std::int64_t pid) {
  const auto stat = slurp(proc + "/" + std::to_string(pid) + "/stat", 4096).value_or("");
  const auto close = stat.rfind(')');
  if (close == std::string::npos) return 0;
  const auto fields = split(trim(std::string_view(stat).substr(close + 1)), ' ');
  return fields.size() > 1 ? to_number(fields[1]).value_or(0) : 0;
}

/// Puts the rows of each process below those of its parent, and keeps the order otherwise.
class Tree {
 public:
  Tree(const std::vector<Row>& rows, const std::map<std::int64_t, std::int64_t>& parents)
      : rows_(rows) {
    for (const Row& row : rows)
      if (row.process->pid) pids_.insert(*row.process->pid);
    std::set<std::int64_t> seen;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto pid = rows[i].process->pid;
      if (!pid) {
        roots_.push_back(i);
        continue;
      }
      const bool is_first = seen.insert(*pid).second;
      of_pid_[*pid].push_back(i);
      if (!is_first) continue;
      const auto parent = parents.find(*pid);
      const bool is_child = parent != parents.end() && pids_.contains(parent->second);
      (is_child ? children_[parent->second] : roots_).push_back(i);
    }
  }
  [[nodiscard]] std::vector<Row> in_order() {
    for (const std::size_t root : roots_) visit(root, 0);
    return std::move(done_);
  }

 private:
  void visit(std::size_t row, int depth) {
    const auto pid = rows_[row].process->pid;
    if (!pid) return done_.push_back(rows_[row]);
    for (const std::size_t one : of_pid_[*pid]) {
      done_.push_back(rows_[one]);
      done_.back().depth = depth;
    }
    // A pid that was reused could make a circle.
    for (const std::size_t child : std::exchange(children_[*pid], {})) visit(child, depth + 1);
  }

  const std::vector<Row>& rows_;
  std::set<std::int64_t> pids_;
  std::map<std::int64_t, std::vector<std::size_t>> of_pid_, children_;
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

bool comes_before(const UserRow& a, const UserRow& b, const std::string& sort) {
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
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    return comes_before(*a.process, *b.process, settings.sort);
  });
  if (settings.is_reversed) std::reverse(rows.begin(), rows.end());
  if (settings.is_tree) return Tree(rows, settings.parents).in_order();
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
    // A process on several devices has several rows, but only one memory on the host.
    const auto pid = process.pid ? process.pid : process.host_pid;
    if (pid && !seen.insert(*pid).second) continue;
    ++row.processes;
    add(row.cpu_percent, process.cpu_percent);
    add(row.rss_bytes, process.rss_bytes);
  }
  std::vector<UserRow> rows;
  for (auto& [name, row] : users) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [&](const UserRow& a, const UserRow& b) {
    return comes_before(a, b, settings.sort);
  });
  if (settings.is_reversed) std::reverse(rows.begin(), rows.end());
  return rows;
}

void ParentCache::read(const watch::Frame& frame, Settings& settings) {
  constexpr int kDeepest = 64;
  if (!settings.is_tree) return;
  std::set<std::int64_t> pids;
  for (const DeviceProcess& process : frame.snapshot.processes)
    if (process.pid) pids.insert(*process.pid);
  std::map<Known, std::int64_t> kept;
  settings.parents.clear();
  for (const DeviceProcess& process : frame.snapshot.processes) {
    if (!process.pid) continue;
    const Known key(*process.pid, process.start_ticks.value_or(0));
    const auto known = known_.find(key);
    std::int64_t parent = known == known_.end() ? 0 : known->second;
    // Its known parent may have left the list, so that another ancestor takes its place.
    if (known == known_.end() || (parent != 0 && !pids.contains(parent))) {
      parent = parent_of(proc_, *process.pid);
      for (int i = 0; i < kDeepest && parent > 1 && !pids.contains(parent); ++i)
        parent = parent_of(proc_, parent);
      if (!pids.contains(parent)) parent = 0;
    }
    kept[key] = parent;
    if (parent != 0) settings.parents[*process.pid] = parent;
  }
  known_ = std::move(kept);
}

}  // namespace berth::top
