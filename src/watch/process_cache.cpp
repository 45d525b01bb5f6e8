#include "watch/process_cache.hpp"

#include <unistd.h>

#include <optional>
#include <string>

#include "inventory/local_processes.hpp"
#include "system/process_text.hpp"

namespace berth::watch {

using inventory::copy_local_half;
using model::DeviceProcess;

namespace {

std::optional<std::int64_t> key_of(const DeviceProcess& row) {
  return row.host_pid ? row.host_pid : row.pid;
}

}  // namespace

ProcessCache::ProcessCache(Roots roots, bool simulated)
    : roots_(std::move(roots)),
      translator_(simulated ? system::PidTranslator(roots_, system::PidView::kHost)
                            : system::PidTranslator(roots_)) {}

std::optional<system::StatLine> ProcessCache::stat_of(std::int64_t pid) const {
  const auto text = slurp(roots_.proc + "/" + std::to_string(pid) + "/stat", 4096);
  auto stat = text ? system::parse_stat(*text) : std::nullopt;
  if (stat) stat->name = {};  // it points into the text
  return stat;
}

/// False if the pid now belongs to another process.
bool ProcessCache::refresh(Known& known, Clock::time_point now) const {
  // The folder's name is our own pid only if /proc shows our namespace.
  if (!known.row.pid || !known.row.start_ticks || translator_.view() == system::PidView::kHostProc)
    return false;
  const auto stat = stat_of(*known.row.pid);
  if (!stat || stat->start_ticks != known.row.start_ticks) return false;
  const std::chrono::duration<double> passed = now - known.read_at;
  constexpr double kShortest = 0.2;  // seconds; a kernel tick is 10 ms
  if (known.has_ticks && passed.count() < kShortest) return true;
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (known.has_ticks && stat->cpu_ticks >= known.cpu_ticks)
    known.row.cpu_percent =
        static_cast<double>(stat->cpu_ticks - known.cpu_ticks) / ticks / passed.count() * 100;
  if (known.row.age_seconds) *known.row.age_seconds.value += passed.count();
  known.row.state = printable(std::string_view(&stat->state, 1));
  known.row.rss_bytes = stat->rss_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  known.cpu_ticks = stat->cpu_ticks;
  known.read_at = now;
  known.has_ticks = true;
  return true;
}

void ProcessCache::fill(std::vector<DeviceProcess>& rows, Clock::time_point now) {
  std::vector<DeviceProcess> unknown;
  for (auto& [pid, known] : known_) known.is_used = false;
  for (DeviceProcess& row : rows) {
    const auto key = key_of(row);
    if (!key) continue;
    const auto found = known_.find(*key);
    if (found == known_.end() || (!found->second.is_used && !refresh(found->second, now))) {
      if (found != known_.end()) known_.erase(found);
      unknown.push_back(row);
      continue;
    }
    found->second.is_used = true;
    copy_local_half(found->second.row, row);
  }
  inventory::fill_local(unknown, roots_, translator_, system::Depth::kAll);
  for (const DeviceProcess& row : unknown) {
    Known& known = known_[*key_of(row)];
    known.row = row;
    known.read_at = now;
    known.is_used = true;
  }
  if (!unknown.empty())
    for (DeviceProcess& row : rows)
      if (const auto key = key_of(row))
        if (const auto found = known_.find(*key); found != known_.end())
          copy_local_half(found->second.row, row);
  std::erase_if(known_, [](const auto& one) { return !one.second.is_used; });
  fill_parents(rows);
}

void ProcessCache::fill_parents(std::vector<DeviceProcess>& rows) {
  // Only then are the pids those of the folders in /proc.
  if (translator_.view() == system::PidView::kHostProc) return;
  std::set<Identity> listed;
  for (const DeviceProcess& row : rows)
    if (row.pid && row.start_ticks) listed.emplace(*row.pid, *row.start_ticks);
  if (listed != listed_) {
    listed_ = std::move(listed);
    parents_ = find_parents();
  }
  for (DeviceProcess& row : rows) {
    const auto parent = row.pid ? parents_.find(*row.pid) : parents_.end();
    row.parent = parent == parents_.end() ? std::nullopt : std::optional(parent->second);
  }
}

std::map<std::int64_t, std::int64_t> ProcessCache::find_parents() const {
  constexpr int kDeepest = 64;
  std::map<std::int64_t, std::int64_t> parents;
  for (const auto& [pid, start] : listed_) {
    auto stat = stat_of(pid);
    if (!stat || stat->start_ticks != start) continue;
    for (int depth = 0; depth < kDeepest && stat->parent > 1; ++depth) {
      const std::int64_t ancestor = stat->parent;
      const std::uint64_t child_start = stat->start_ticks;
      stat = stat_of(ancestor);
      // A pid that was reused since belongs to a process that is younger than its child.
      if (!stat || stat->start_ticks > child_start) break;
      if (!listed_.contains({ancestor, stat->start_ticks})) continue;
      parents[pid] = ancestor;
      break;
    }
  }
  return parents;
}

}  // namespace berth::watch
