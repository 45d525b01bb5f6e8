#include "watch/process_cache.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "inventory/local_processes.hpp"
#include "system/process_text.hpp"

namespace berth::watch {

using inventory::copy_local_half;
using model::DeviceProcess;

namespace {

std::optional<std::int64_t> key_of(const DeviceProcess& row) {
  return row.host_pid ? row.host_pid : row.pid;
}

/// How many files of /proc are kept open. 0 for a recorded /proc: its files are replaced, and an
/// open file would keep the old content.
std::size_t most_open(const std::string& proc) {
  constexpr std::size_t kMost = 1024;
  struct statfs about = {};
  rlimit limit = {};
  if (::statfs(proc.c_str(), &about) != 0 || about.f_type != PROC_SUPER_MAGIC) return 0;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur / 4, kMost));
}

}  // namespace

ProcessCache::ProcessCache(Roots roots, bool simulated)
    : roots_(std::move(roots)),
      translator_(simulated ? system::PidTranslator(roots_, system::PidView::kHost)
                            : system::PidTranslator(roots_)),
      most_open_(most_open(roots_.proc)) {}

std::optional<system::StatLine> ProcessCache::stat_of(std::int64_t pid) const {
  const auto text = slurp(roots_.proc + "/" + std::to_string(pid) + "/stat", 4096);
  auto stat = text ? system::parse_stat(*text) : std::nullopt;
  if (stat) stat->name = {};  // clear it, because it would point into the freed text
  return stat;
}

/// Reads `stat` of a process. The file stays open: it always belongs to the same process, and
/// opening it again would take three times as long.
std::optional<system::StatLine> ProcessCache::stat_of(Known& known) {
  if (!known.stat_file && open_ < most_open_) {
    const std::string path = roots_.proc + "/" + std::to_string(*known.row.pid) + "/stat";
    known.stat_file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (known.stat_file) ++open_;
  }
  if (!known.stat_file) return stat_of(*known.row.pid);
  std::array<char, 4096> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const ssize_t count = ::pread(known.stat_file.get(), buffer.data(), buffer.size(), 0);
  if (count <= 0) return std::nullopt;
  auto stat = system::parse_stat({buffer.data(), static_cast<std::size_t>(count)});
  if (stat) stat->name = {};  // clear it, because it would point into the local buffer
  return stat;
}

bool ProcessCache::may_be_left_out(Known& known) {
  constexpr int kIdle = 5, kLeftOut = 2;
  if (known.idle < kIdle || known.left_out >= kLeftOut) {
    known.left_out = 0;
    return false;
  }
  ++known.left_out;
  return true;
}

/// Reads the process again. Returns false if the pid now belongs to another process.
bool ProcessCache::refresh(Known& known, Clock::time_point now) {
  // The pid in the folder's name is a pid of our namespace only if /proc shows our namespace.
  if (!known.row.pid || !known.row.start_ticks || translator_.view() == system::PidView::kHostProc)
    return false;
  const std::chrono::duration<double> older = now - std::exchange(known.aged_at, now);
  if (known.row.age_seconds) *known.row.age_seconds.value += older.count();
  if (may_be_left_out(known)) return true;
  const auto stat = stat_of(known);
  if (!stat || stat->start_ticks != known.row.start_ticks) return false;
  const std::chrono::duration<double> passed = now - known.read_at;
  // Seconds between two reads. CPU time is counted in ticks of 10 ms, so a shorter time gives an
  // inaccurate CPU share.
  constexpr double kShortest = 0.2;
  if (known.has_ticks && passed.count() < kShortest) return true;
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (known.has_ticks && stat->cpu_ticks >= known.cpu_ticks)
    known.row.cpu_percent =
        static_cast<double>(stat->cpu_ticks - known.cpu_ticks) / ticks / passed.count() * 100;
  const std::string state = printable(std::string_view(&stat->state, 1));
  const std::uint64_t bytes = stat->rss_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const bool is_idle = known.has_ticks && stat->cpu_ticks == known.cpu_ticks &&
                       known.row.state == state && known.row.rss_bytes.value == bytes;
  known.idle = is_idle ? known.idle + 1 : 0;
  known.row.state = state;
  known.row.rss_bytes = bytes;
  known.cpu_ticks = stat->cpu_ticks;
  known.read_at = now;
  known.has_ticks = true;
  return true;
}

void ProcessCache::fill(std::vector<DeviceProcess>& rows, Clock::time_point now) {
  std::vector<DeviceProcess> unknown;
  open_ = 0;
  for (auto& [pid, known] : known_) {
    known.is_used = false;
    if (known.stat_file) ++open_;
  }
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
    known.read_at = known.aged_at = now;
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
  // In a container with the host's /proc, the rows' pids differ from those in /proc. So parents
  // cannot be found.
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
  std::map<std::int64_t, std::optional<system::StatLine>> read;  // each ancestor is read only once
  const auto stat_of = [&](std::int64_t pid) {
    const auto known = read.find(pid);
    return known != read.end() ? known->second : read[pid] = this->stat_of(pid);
  };
  for (const auto& [pid, start] : listed_) {
    auto stat = stat_of(pid);
    if (!stat || stat->start_ticks != start) continue;
    for (int depth = 0; depth < kDeepest && stat->parent > 1; ++depth) {
      const std::int64_t ancestor = stat->parent;
      const std::uint64_t child_start = stat->start_ticks;
      stat = stat_of(ancestor);
      // A parent that is younger than its child is another process that reuses the pid.
      if (!stat || stat->start_ticks > child_start) break;
      if (!listed_.contains({ancestor, stat->start_ticks})) continue;
      parents[pid] = ancestor;
      break;
    }
  }
  return parents;
}

}  // namespace berth::watch
