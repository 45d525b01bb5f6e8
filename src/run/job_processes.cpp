#include "run/job_processes.hpp"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "run/descendants.hpp"

namespace berth::run {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kMostThreadsOfProcess = 1 << 16;
// limit for the bytes that are read of a maps file; the known libraries come before that
constexpr std::size_t kMostMaps = 8 << 20;

std::vector<pid_t> list_pids(const std::string& proc) {
  std::vector<pid_t> pids;
  DIR* folder = ::opendir(proc.c_str());
  if (folder == nullptr) return pids;
  while (const dirent* entry =
             ::readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): its own stream
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (problem == std::errc{} && end == name.data() + name.size()) pids.push_back(pid);
  }
  ::closedir(folder);
  return pids;
}

milliseconds time_of(std::uint64_t ticks) {
  static const auto per_second = static_cast<std::uint64_t>(std::max(1L, ::sysconf(_SC_CLK_TCK)));
  return milliseconds(static_cast<std::int64_t>(ticks * 1000 / per_second));
}

/// The number in a line such as "Pss:    1234 kB" of a text of many lines.
std::optional<double> kib_of(std::string_view lines, std::string_view key) {
  for (const std::string_view line : split(lines, '\n')) {
    if (!line.starts_with(key)) continue;
    std::string_view rest = trim(line.substr(key.size()));
    const auto number = to_number(rest.substr(0, rest.find(' ')));
    if (!number || *number < 0) return std::nullopt;
    return static_cast<double>(*number);
  }
  return std::nullopt;
}

}  // namespace

std::chrono::nanoseconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

bool JobProcesses::contains(std::int64_t pid) const {
  return members_.find(static_cast<pid_t>(pid)) != members_.end();
}

std::vector<std::int64_t> JobProcesses::pids() const {
  std::vector<std::int64_t> pids;
  pids.reserve(members_.size());
  for (const auto& member : members_) pids.push_back(member.first);
  return pids;
}

/// Whether the process is in the job's container. Docker names the control group of a container by
/// the container's id.
bool JobProcesses::is_in_container(pid_t pid) const {
  if (container_id_.empty()) return false;
  const auto groups = slurp(proc_ + "/" + std::to_string(pid) + "/cgroup");
  return groups && groups->find(container_id_) != std::string::npos;
}

void JobProcesses::find_members() {
  if (!id_file_.empty() && container_id_.empty()) {
    const auto id = read_line(id_file_);
    constexpr std::size_t kLength = 64;
    if (id && id->size() == kLength) container_id_ = *id;
  }
  const std::vector<pid_t> pids = list_pids(proc_);
  const std::unordered_set<pid_t> here(pids.begin(), pids.end());
  std::erase_if(strangers_, [&](pid_t pid) { return !here.contains(pid); });
  std::erase_if(members_, [&](const auto& member) { return !here.contains(member.first); });
  std::vector<std::pair<pid_t, pid_t>> fresh;  // new processes: the pid and the pid of the parent
  for (const pid_t pid : pids) {
    if (pid == root_ || strangers_.contains(pid) || members_.contains(pid)) continue;
    if (const auto stat = read_stat(proc_, pid)) fresh.emplace_back(pid, stat->parent);
  }
  // Parents may be new as well, so repeat until nothing changes.
  for (bool found = true; found;) {
    found = false;
    std::erase_if(fresh, [&](const auto& one) {
      const bool ours = one.second == root_ || members_.contains(one.second);
      if (ours) members_.emplace(one.first, Member{});
      found = found || ours;
      return ours;
    });
  }
  for (const auto& [pid, parent] : fresh)
    if (is_in_container(pid))
      members_.emplace(pid, Member{});
    else
      strangers_.insert(pid);
}

void JobProcesses::look(Clock::time_point now) {
  ++looks_;
  find_members();
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  struct Resident {
    pid_t pid = 0;
    Member* member = nullptr;
    std::uint64_t bytes = 0;
  };
  std::vector<Resident> residents;
  int threads_of_all = 0;
  seen_.clear();
  for (auto& [pid, member] : members_) {
    const auto stat = read_stat(proc_, pid);
    if (!stat || stat->state == 'Z') continue;
    seen_.push_back({pid, stat->parent, stat->name, stat->state, time_of(stat->cpu_ticks)});
    const auto threads = static_cast<int>(std::min(stat->threads, kMostThreadsOfProcess));
    most_threads_ = std::max(most_threads_, threads);
    threads_of_all += threads;
    if (stat->state == 'D') read_disk_bytes(pid, member);
    if (stat->rss_pages > 0) residents.push_back({pid, &member, stat->rss_pages * page});
    if (member.inspected)
      longest_uninspected_ = std::max(longest_uninspected_, now - *member.inspected);
    const bool changed = stat->virtual_bytes != member.virtual_bytes;
    if (now < (changed ? member.soonest : member.latest)) continue;
    member.virtual_bytes = stat->virtual_bytes;
    member.inspected = now;
    const auto begin = processor_time();
    inspect(pid);
    // Spend at most 1 % of our time on reading maps, however large they are.
    const auto cost = processor_time() - begin;
    member.soonest = now + std::max<Clock::duration>(milliseconds(15), 100 * cost);
    member.latest = now + std::max<Clock::duration>(milliseconds(1000), 100 * cost);
  }
  most_threads_of_all_ = std::max(most_threads_of_all_, threads_of_all);
  // Forked workers share most of their pages, which RSS would count for each worker. A fork or an
  // exit changes the shares of all other processes, so measure all of them again.
  const bool has_changed = std::exchange(residents_, residents.size()) != residents.size();
  double sum = 0;
  bool is_pss = residents.size() > 1;
  for (const Resident& one : residents) {
    if (residents.size() > 1 && (has_changed || now >= one.member->weigh_at) &&
        !weigh(one.pid, *one.member, now))
      continue;  // the process has ended
    const bool is_known = residents.size() > 1 && one.member->own_part;
    is_pss = is_pss && is_known;
    sum += static_cast<double>(one.bytes) * (is_known ? *one.member->own_part : 1);
  }
  memory_bytes_ = static_cast<std::uint64_t>(sum);
  if (memory_bytes_ <= peak_memory_bytes_) return;
  peak_memory_bytes_ = memory_bytes_;
  peak_is_pss_ = is_pss;
}

std::optional<double> JobProcesses::mean_runnable() const {
  if (counts_ == 0) return std::nullopt;
  return static_cast<double>(runnable_sum_) / static_cast<double>(counts_);
}

void JobProcesses::count_runnable(Clock::time_point now) {
  constexpr std::size_t kMostThreads = 2048;
  if (now < count_at_) return;
  const auto begin = Clock::now();
  std::size_t left = kMostThreads;
  for (const SeenProcess& one : seen_) {
    const std::string folder = proc_ + "/" + std::to_string(one.pid) + "/task";
    for (const pid_t thread : list_pids(folder)) {
      if (left == 0) break;
      --left;
      const auto stat = read_stat(folder, thread);
      if (stat && stat->state == 'R') ++runnable_sum_;
    }
  }
  if (!seen_.empty()) ++counts_;
  // after this many counts, count less often, because the mean hardly changes any more
  constexpr std::uint64_t kOften = 40;
  const milliseconds interval(counts_ < kOften ? 250 : 1000);
  count_at_ = now + std::max<Clock::duration>(interval, 100 * (Clock::now() - begin));
}

void JobProcesses::read_disk_bytes(pid_t pid, Member& member) {
  constexpr std::size_t kMostBytes = 1024;
  const auto told = slurp(proc_ + "/" + std::to_string(pid) + "/io", kMostBytes);
  if (!told) return;
  std::uint64_t bytes = 0;
  for (const std::string_view line : split(*told, '\n'))
    for (const std::string_view key : {"read_bytes:", "write_bytes:"})
      if (line.starts_with(key))
        bytes += static_cast<std::uint64_t>(
            std::max<long long>(0, to_number(trim(line.substr(key.size()))).value_or(0)));
  if (member.disk_bytes && bytes > *member.disk_bytes) disk_bytes_ += bytes - *member.disk_bytes;
  member.disk_bytes = bytes;
}

/// Measures the PSS of a process; false if the process has ended. The kernel walks all pages of the
/// process for this, so it is done rarely. In between, the ratio of PSS to RSS is assumed to be
/// constant.
bool JobProcesses::weigh(pid_t pid, Member& member, Clock::time_point now) {
  const auto begin = processor_time();
  constexpr std::size_t kMostBytes = 4096;
  int problem = 0;
  const auto told =
      slurp(proc_ + "/" + std::to_string(pid) + "/smaps_rollup", kMostBytes, &problem);
  if (!told && problem == ESRCH) return false;
  const double rss = told ? kib_of(*told, "Rss:").value_or(0) : 0;
  const double pss = told ? kib_of(*told, "Pss:").value_or(-1) : -1;
  if (told && rss <= 0) return false;  // the process is exiting and has no memory left
  if (rss > 0 && pss >= 0) member.own_part = std::min(1.0, pss / rss);
  member.weigh_at =
      now + std::max<Clock::duration>(milliseconds(200), 100 * (processor_time() - begin));
  return true;
}

void JobProcesses::inspect(pid_t pid) {
  const std::string folder = proc_ + "/" + std::to_string(pid);
  int problem = 0;
  const auto maps = slurp(folder + "/maps", kMostMaps, &problem);
  if (maps)
    add_maps(*maps, gpu_files_);
  else if (problem == EACCES || problem == EPERM)
    unreadable_ = true;
  read_descriptors(folder + "/fd");
}

void JobProcesses::read_descriptors(const std::string& folder) {
  DIR* stream = ::opendir(folder.c_str());
  if (stream == nullptr) return;
  int left = 4096;
  while (const dirent* entry =
             ::readdir(stream)) {  // NOLINT(concurrency-mt-unsafe): its own stream
    if (entry->d_name[0] == '.') continue;
    if (--left < 0) break;
    std::array<char, 256> target;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const ssize_t n = ::readlinkat(::dirfd(stream), entry->d_name, target.data(), target.size());
    if (n > 0) add_descriptor({target.data(), static_cast<std::size_t>(n)}, gpu_files_);
  }
  ::closedir(stream);
}

}  // namespace berth::run
