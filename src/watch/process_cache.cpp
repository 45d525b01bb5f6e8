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

/// False if the pid now belongs to another process.
bool ProcessCache::refresh(Known& known, Clock::time_point now) const {
  // The folder's name is our own pid only if /proc shows our namespace.
  if (!known.row.pid || !known.row.start_ticks || translator_.view() == system::PidView::kHostProc)
    return false;
  const auto text = slurp(roots_.proc + "/" + std::to_string(*known.row.pid) + "/stat", 4096);
  const auto stat = text ? system::parse_stat(*text) : std::nullopt;
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
}

}  // namespace berth::watch
